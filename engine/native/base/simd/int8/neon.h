#pragma once
#include "base/simd/int8/neon_sums.h"

namespace palm {
namespace {

constexpr size_t kQuadRegisters = 5;
constexpr size_t kMaxVectors = 2;
constexpr int32_t kOffset = 0;

template <>
struct Quads<S32> {
  using Number = int16_t;
  int16x8_t low, high;
  static constexpr size_t place(size_t lane, size_t i) { return i * S32::lanes + lane; }
  static Quads load(const int16_t* p) { return {vld1q_s16(p), vld1q_s16(p + 8)}; }
  static Quads set(uint32_t bytes) {
    const int16x8_t words = vreinterpretq_s16_u16(vmovl_u8(four_bytes(bytes)));
    return {words, words};
  }
  friend S32 dot(Quads bytes, Quads weights, S32 c) {
    const int16x4_t x = vget_low_s16(bytes.low);
    int32x4_t sum = vmlal_lane_s16(c.v, vget_low_s16(weights.low), x, 0);
    sum = vmlal_lane_s16(sum, vget_high_s16(weights.low), x, 1);
    sum = vmlal_lane_s16(sum, vget_low_s16(weights.high), x, 2);
    return {vmlal_lane_s16(sum, vget_high_s16(weights.high), x, 3)};
  }
};

template <>
struct Channels<16> {
  static constexpr size_t lanes = 4;
  using Number = int16_t;
  using Bytes = uint8x16_t;
  using Sums = int32x4_t;
  struct Fours {
    Bytes v[4];
  };
  static constexpr size_t channel_of(size_t vector, size_t lane) { return vector * 4 + lane; }
  static Bytes load(const void* from) { return vld1q_u8(static_cast<const uint8_t*>(from)); }
  static Sums load_sums(const int32_t* p) { return vld1q_s32(p); }
  static void store(Sums x, void* to) { vst1q_s32(static_cast<int32_t*>(to), x); }
  static constexpr size_t place(size_t lane, size_t i) { return i * 4 + lane; }
  static PALM_INLINE Fours join(Bytes a, Bytes b, Bytes c, Bytes d) { return {{a, b, c, d}}; }
  static PALM_INLINE void dot(const Fours& bytes, const Number* weights, Sums* sums) {
    for (size_t i = 0; i < 4; ++i) {
      const int16x8_t low = vreinterpretq_s16_u16(vmovl_u8(vget_low_u8(bytes.v[i])));
      const int16x8_t high = vreinterpretq_s16_u16(vmovl_u8(vget_high_u8(bytes.v[i])));
      const Number* const w = weights + i * 4;
      sums[0] = vmlal_s16(sums[0], vget_low_s16(low), vld1_s16(w));
      sums[1] = vmlal_s16(sums[1], vget_high_s16(low), vld1_s16(w + 16));
      sums[2] = vmlal_s16(sums[2], vget_low_s16(high), vld1_s16(w + 32));
      sums[3] = vmlal_s16(sums[3], vget_high_s16(high), vld1_s16(w + 48));
    }
  }
  static constexpr bool kHasBytes = false;
};
constexpr size_t kMostChannels = 16;

}  // namespace
}  // namespace palm
