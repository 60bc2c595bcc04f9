#include "base/half.h"

#include <cstdint>
#include <cstring>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "base/cpu.h"

namespace palm {
namespace {

#if defined(__x86_64__)
// How many it has done: whole vectors. Every CPU with AVX2 has F16C.
__attribute__((target("avx2,f16c"))) size_t widen_vectors(const void* halves, size_t count,
                                                          float* to) {
  constexpr size_t kLanes = 8;
  const auto* from = static_cast<const __m128i*>(halves);
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(from++)));
  return i;
}
#endif

}  // namespace

void widen_halves(const void* halves, size_t count, float* to) {
  size_t i = 0;
#if defined(__x86_64__)
  if (host_isa() & kAvx2) i = widen_vectors(halves, count, to);
#endif
  for (; i < count; ++i) {
    uint16_t half;
    std::memcpy(&half, static_cast<const char*>(halves) + i * sizeof half, sizeof half);
    // The exponent is put right by a product, which does it for numbers below the least normal too.
    uint32_t bits = static_cast<uint32_t>(half & 0x7fff) << 13;
    float value;
    std::memcpy(&value, &bits, sizeof value);
    value *= 0x1p112f;
    std::memcpy(&bits, &value, sizeof bits);
    if ((half & 0x7c00) == 0x7c00) bits |= 0x7f800000;
    bits |= static_cast<uint32_t>(half & 0x8000) << 16;
    std::memcpy(to + i, &bits, sizeof bits);
  }
}

}  // namespace palm
