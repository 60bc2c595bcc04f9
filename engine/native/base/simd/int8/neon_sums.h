#pragma once
// What the sets of arm64 share.

namespace palm {
namespace {

struct S32 {
  static constexpr size_t lanes = 4;
  int32x4_t v;
  static S32 load(const int32_t* p) { return {vld1q_s32(p)}; }
  void store(int32_t* p) const { vst1q_s32(p, v); }
};
using S32Half = S32;

inline F32 to_float(S32 a) { return {vcvtq_f32_s32(a.v)}; }

inline uint8x8_t four_bytes(uint32_t bytes) { return vreinterpret_u8_u32(vdup_n_u32(bytes)); }

inline F32 load_bytes(const uint8_t* p) {
  uint32_t bytes;
  __builtin_memcpy(&bytes, p, sizeof bytes);
  return {vcvtq_f32_u32(vmovl_u16(vget_low_u16(vmovl_u8(four_bytes(bytes)))))};
}

inline void store_bytes(F32 x, int32_t zero, uint8_t* p) {
  const int16x4_t words = vmovn_s32(vaddq_s32(vcvtnq_s32_f32(x.v), vdupq_n_s32(zero)));
  const uint8x8_t bytes = vmovn_u16(vreinterpretq_u16_s16(vcombine_s16(words, words)));
  const uint32_t four = vget_lane_u32(vreinterpret_u32_u8(bytes), 0);
  __builtin_memcpy(p, &four, sizeof four);
}

}  // namespace
}  // namespace palm

#include "base/simd/int8/parts.h"

namespace palm {
namespace {

template <class S>
struct Quads;

constexpr bool kHasBytesOfRows = false;

}  // namespace
}  // namespace palm
