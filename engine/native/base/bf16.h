#pragma once
// The 16-bit numbers of precision="low": on x86-64 bfloat16, the upper half of a float, and on
// arm64 IEEE 754's float16. The functions have internal linkage, as those of base/simd.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/step.h"

namespace palm {

struct Bf16 {
  uint16_t bits;
};

#if defined(__aarch64__)

constexpr DType kNarrow = DType::kFloat16;
constexpr Bf16 kMinusInfinity{0xfc00}, kNan{0x7e00};

static inline float widen(Bf16 half) {
  __fp16 value;
  std::memcpy(&value, &half, sizeof value);
  return value;
}

// To the nearest, halves to even; infinite beyond 65504; a NaN stays one.
static inline Bf16 narrow(float value) {
  const auto half = static_cast<__fp16>(value);
  Bf16 result;
  std::memcpy(&result, &half, sizeof result);
  return result;
}

#else

constexpr DType kNarrow = DType::kBfloat16;
constexpr Bf16 kMinusInfinity{0xff80}, kNan{0x7fc0};

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

#endif

}  // namespace palm
