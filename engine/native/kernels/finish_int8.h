#pragma once
// For files int8.cc: sums to bytes, whatever the epilogue.
#include "base/int8.h"
#include "kernels/epilogue_int8.h"

namespace palm {
namespace {

inline F32 clip(F32 x, float low, float high) { return min(max(x, F32::set(low)), F32::set(high)); }

// What becomes of the sums of n channels from `channel` on, n <= S32::lanes; of a vector more is
// read of scale and slope. `there`: of the residual so many channels are.
class Finish {
 public:
  Finish(const EpilogueInt8& e, size_t channel, size_t n)
      : e_(e), n_(n), scale_(F32::load(e.scale + channel)), slope_(F32::set(0)) {
    if (e.slope) slope_ = F32::load(e.slope + channel);
    if (e.residual && e.residual_channels > channel) {
      there_ = e.residual_channels - channel;
      if (there_ > n) there_ = n;
    }
  }

  PALM_INLINE void operator()(S32 sums, const uint8_t* residual, OutInt8 to) const {
    F32 v = to_float(sums) * scale_;
    if (to.is_float) return v.store(to.floats(), n_);
    if (e_.inner_scale != 0) v = rounded(v, e_.inner_low, e_.inner_high, e_.inner_scale);
    if (there_) {
      const F32 z = load_bytes(residual, there_, static_cast<uint8_t>(e_.residual_zero));
      v = v + (z - F32::set(e_.residual_zero)) * F32::set(e_.residual_scale);
    }
    if (e_.sum_scale != 0) v = rounded(v, e_.sum_low, e_.sum_high, e_.sum_scale);
    if (e_.slope) v = less(F32::set(0), v, v, v * slope_);
    store_bytes(clip(v, e_.low, e_.high), e_.zero, to.bytes(), n_);
  }

 private:
  static F32 clip(F32 x, float low, float high) {
    return min(max(x, F32::set(low)), F32::set(high));
  }
  static F32 rounded(F32 x, float low, float high, float scale) {
    return round(clip(x, low, high)) * F32::set(scale);
  }

  const EpilogueInt8 e_;
  const size_t n_;
  size_t there_ = 0;
  F32 scale_, slope_;
};

// `rows` rows of `count` sums from `channel` on, each followed by enough to be read.
inline void finish(const EpilogueInt8& e, const int32_t* sums, size_t stride, size_t rows,
                   size_t count, size_t channel, const uint8_t* residual, OutInt8 out,
                   size_t out_stride) {
  for (size_t i = 0; i < count; i += S32::lanes) {
    const Finish end(e, channel + i, count - i < S32::lanes ? count - i : S32::lanes);
    for (size_t row = 0; row < rows; ++row) {
      end(S32::load(sums + row * stride + i),
          residual ? residual + row * e.residual_stride + i : nullptr,
          out + (row * out_stride + i));
    }
  }
}

inline ByteRange range_of(const EpilogueInt8& e) {
  return {static_cast<int16_t>(e.zero), static_cast<uint8_t>(static_cast<int32_t>(e.low) + e.zero),
          static_cast<uint8_t>(static_cast<int32_t>(e.high) + e.zero)};
}

}  // namespace
}  // namespace palm
