#pragma once
#include "base/simd/int8/neon_sums.h"

namespace palm {
namespace {

constexpr size_t kQuadRegisters = 2;
constexpr size_t kMaxVectors = 4;
// The set multiplies two signed bytes.
constexpr int32_t kOffset = 128;

template <>
struct Quads<S32> {
  using Number = int8_t;
  int8x16_t v;
  static constexpr size_t place(size_t lane, size_t i) { return lane * 4 + i; }
  static Quads load(const int8_t* p) { return {vld1q_s8(p)}; }
  static Quads set(uint32_t bytes) {
    return {vreinterpretq_s8_u32(vdupq_n_u32(bytes ^ 0x80808080u))};
  }
  friend S32 dot(Quads bytes, Quads weights, S32 c) { return {vdotq_s32(c.v, bytes.v, weights.v)}; }
};

template <>
struct Channels<16> {
  static constexpr size_t lanes = 4;
  using Number = int8_t;
  using Bytes = uint8x16_t;
  using Sums = int32x4_t;
  struct Fours {
    int8x16_t v[4];
  };
  static constexpr size_t channel_of(size_t vector, size_t lane) { return vector * 4 + lane; }
  static Bytes load(const void* from) { return vld1q_u8(static_cast<const uint8_t*>(from)); }
  static Sums load_sums(const int32_t* p) { return vld1q_s32(p); }
  static void store(Sums x, void* to) { vst1q_s32(static_cast<int32_t*>(to), x); }
  static constexpr size_t place(size_t lane, size_t i) { return lane * 4 + i; }
  static PALM_INLINE Fours join(Bytes a, Bytes b, Bytes c, Bytes d) {
    const uint8x16_t sign = vdupq_n_u8(128);
    const uint8x16x2_t ac = vzipq_u8(veorq_u8(a, sign), veorq_u8(c, sign));
    const uint8x16x2_t bd = vzipq_u8(veorq_u8(b, sign), veorq_u8(d, sign));
    const uint8x16x2_t low = vzipq_u8(ac.val[0], bd.val[0]);
    const uint8x16x2_t high = vzipq_u8(ac.val[1], bd.val[1]);
    return {{vreinterpretq_s8_u8(low.val[0]), vreinterpretq_s8_u8(low.val[1]),
             vreinterpretq_s8_u8(high.val[0]), vreinterpretq_s8_u8(high.val[1])}};
  }
  static PALM_INLINE void dot(const Fours& bytes, const Number* weights, Sums* sums) {
    for (size_t v = 0; v < 4; ++v)
      sums[v] = vdotq_s32(sums[v], bytes.v[v], vld1q_s8(weights + v * 16));
  }
  static constexpr bool kHasBytes = false;
};
constexpr size_t kMostChannels = 16;

}  // namespace
}  // namespace palm
