#pragma once
// bfloat16: the upper half of a float. The functions have internal linkage, as those of base/simd.
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace palm {

struct Bf16 {
  uint16_t bits;
};

static inline float widen(Bf16 half) {
  const uint32_t bits = static_cast<uint32_t>(half.bits) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// To the nearest, halves to even; a NaN stays one.
static inline Bf16 narrow(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>(bits >> 16 | 0x40u)};
  return {static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16)};
}

}  // namespace palm
