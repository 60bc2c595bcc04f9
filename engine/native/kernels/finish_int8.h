#pragma once
// For files int8.cc: sums to bytes, whatever the epilogue.
#include "base/int8.h"
#include "kernels/epilogue_int8.h"

namespace palm {
namespace {

inline F32 clip(F32 x, float low, float high) { return min(max(x, F32::set(low)), F32::set(high)); }

// Fewer than 16.
inline void copy_bytes(const uint8_t* from, size_t n, uint8_t* to) {
  for (size_t size = 8; size > 0; size /= 2) {
    if (!(n & size)) continue;
    switch (size) {
      case 8: __builtin_memcpy(to, from, 8); break;
      case 4: __builtin_memcpy(to, from, 4); break;
      case 2: __builtin_memcpy(to, from, 2); break;
      default: *to = *from;
    }
    to += size;
    from += size;
  }
}

// The first n sums from `channel` on become bytes, n <= S32::lanes. Of the residual, so many
// channels are there.
PALM_INLINE void finish(const EpilogueInt8& e, S32 sums, size_t n, size_t channel,
                        const uint8_t* residual, size_t there, uint8_t* to) {
  F32 v = to_float(sums) * F32::load(e.scale + channel);
  if (e.inner_scale != 0) v = round(clip(v, e.inner_low, e.inner_high)) * F32::set(e.inner_scale);
  if (there > 0) {
    uint8_t bytes[S32::lanes];
    if (there < S32::lanes) {
      for (uint8_t& each : bytes) each = static_cast<uint8_t>(e.residual_zero);
      copy_bytes(residual, there, bytes);
      residual = bytes;
    }
    const F32 z = load_bytes(residual) - F32::set(e.residual_zero);
    v = v + z * F32::set(e.residual_scale);
  }
  if (e.sum_scale != 0) v = round(clip(v, e.sum_low, e.sum_high)) * F32::set(e.sum_scale);
  if (e.slope) v = less(F32::set(0), v, v, v * F32::load(e.slope + channel));
  v = clip(v, e.low, e.high);
  if (n == S32::lanes) return store_bytes(v, e.zero, to);
  uint8_t bytes[S32::lanes];
  store_bytes(v, e.zero, bytes);
  copy_bytes(bytes, n, to);
}

// `count` sums from `channel` on; those are followed by enough to be read.
inline void finish(const EpilogueInt8& e, const int32_t* sums, size_t count, size_t channel,
                   const uint8_t* residual, OutInt8 out) {
  const auto least = [](size_t n) { return n < S32::lanes ? n : S32::lanes; };
  const size_t there =
      residual && e.residual_channels > channel ? e.residual_channels - channel : 0;
  for (size_t i = 0; i < count; i += S32::lanes) {
    const size_t n = least(count - i);
    const S32 each = S32::load(sums + i);
    if (out.is_float) {
      (to_float(each) * F32::load(e.scale + channel + i)).store(out.floats() + i, n);
    } else {
      const size_t left = there > i ? least(there - i) : 0;
      finish(e, each, n, channel + i, left ? residual + i : nullptr, left < n ? left : n,
             out.bytes() + i);
    }
  }
}

inline ByteRange range_of(const EpilogueInt8& e) {
  return {static_cast<int16_t>(e.zero), static_cast<uint8_t>(static_cast<int32_t>(e.low) + e.zero),
          static_cast<uint8_t>(static_cast<int32_t>(e.high) + e.zero)};
}

}  // namespace
}  // namespace palm
