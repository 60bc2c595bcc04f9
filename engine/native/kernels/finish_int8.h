#pragma once
// For files int8.cc: sums to bytes, whatever the epilogue.
#include "base/int8.h"
#include "kernels/epilogue_int8.h"

namespace palm {
namespace {

inline F32 clip(F32 x, float low, float high) { return min(max(x, F32::set(low)), F32::set(high)); }

// S32::lanes sums from `channel` on become bytes.
PALM_INLINE void finish(const EpilogueInt8& e, S32 sums, size_t channel, const uint8_t* residual,
                        uint8_t* to) {
  F32 v = to_float(sums) * F32::load(e.scale + channel);
  if (e.inner_scale != 0) v = round(clip(v, e.inner_low, e.inner_high)) * F32::set(e.inner_scale);
  if (residual) {
    const F32 z = load_bytes(residual) - F32::set(e.residual_zero);
    v = v + z * F32::set(e.residual_scale);
  }
  if (e.slope) v = less(F32::set(0), v, v, v * F32::load(e.slope + channel));
  store_bytes(clip(v, e.low, e.high), e.zero, to);
}

// `count` sums from `channel` on; those are followed by enough to be read.
inline void finish(const EpilogueInt8& e, const int32_t* sums, size_t count, size_t channel,
                   const uint8_t* residual, OutInt8 out) {
  size_t i = 0;
  for (; out.is_float && i < count; i += F32::lanes) {
    const F32 y = to_float(S32::load(sums + i)) * F32::load(e.scale + channel + i);
    y.store(out.floats() + i, count - i < F32::lanes ? count - i : F32::lanes);
  }
  if (out.is_float) return;
  uint8_t* const to = out.bytes();
  for (; i + S32::lanes <= count; i += S32::lanes)
    finish(e, S32::load(sums + i), channel + i, residual ? residual + i : nullptr, to + i);
  if (i == count) return;
  uint8_t z[S32::lanes] = {}, bytes[S32::lanes];
  if (residual)
    for (size_t k = i; k < count; ++k) z[k - i] = residual[k];
  finish(e, S32::load(sums + i), channel + i, residual ? z : nullptr, bytes);
  for (size_t k = i; k < count; ++k) to[k] = bytes[k - i];
}

inline ByteRange range_of(const EpilogueInt8& e) {
  return {static_cast<int16_t>(e.zero), static_cast<uint8_t>(static_cast<int32_t>(e.low) + e.zero),
          static_cast<uint8_t>(static_cast<int32_t>(e.high) + e.zero)};
}

}  // namespace
}  // namespace palm
