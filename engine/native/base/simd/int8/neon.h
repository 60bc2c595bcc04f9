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

}  // namespace
}  // namespace palm
