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

}  // namespace
}  // namespace palm
