#include "base/half.h"

#include <cmath>
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

// How many of the first ones are the same as float16, in whole vectors.
__attribute__((target("avx2,f16c"))) size_t narrow_vectors(const float* from, size_t count,
                                                           uint16_t* halves) {
  constexpr size_t kLanes = 8;
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const __m256 x = _mm256_loadu_ps(from + i);
    const __m128i half = _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    const __m256i same =
        _mm256_cmpeq_epi32(_mm256_castps_si256(x), _mm256_castps_si256(_mm256_cvtph_ps(half)));
    if (_mm256_movemask_epi8(same) != -1) break;
    _mm_storeu_si128(reinterpret_cast<__m128i*>(halves + i), half);
  }
  return i;
}
#endif

// The float16 that is x; false if there is none. Those below the least normal one are whole in steps
// of 2^-24, the others have ten bits behind the first.
bool narrow_one(float x, uint16_t* half) {
  constexpr uint32_t kLeast = 113u << 23, kEnd = 143u << 23, kLost = (1u << 13) - 1;
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  const uint32_t sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
  if (size < kLeast) {
    const float steps = std::fabs(x) * 0x1p24f;
    const auto whole = static_cast<uint16_t>(steps);
    *half = static_cast<uint16_t>(sign | whole);
    return static_cast<float>(whole) == steps;
  }
  *half = static_cast<uint16_t>(sign | ((size - (112u << 23)) >> 13));
  return size < kEnd && (size & kLost) == 0;
}

}  // namespace

bool narrow_to_halves(const float* from, size_t count, uint16_t* halves) {
  size_t i = 0;
#if defined(__x86_64__)
  if (host_isa() & kAvx2) i = narrow_vectors(from, count, halves);
#endif
  for (; i < count; ++i)
    if (!narrow_one(from[i], halves + i)) return false;
  return true;
}

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
