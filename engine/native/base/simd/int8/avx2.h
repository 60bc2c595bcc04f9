#pragma once
#include "base/simd/int8/channels_x86.h"

namespace palm {
namespace {

struct S32 {
  static constexpr size_t lanes = 8;
  __m256i v;
  static S32 load(const int32_t* p) {
    return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))};
  }
  void store(int32_t* p) const { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v); }
};
using S32Half = S32;

inline F32 to_float(S32 a) { return {_mm256_cvtepi32_ps(a.v)}; }

inline F32 load_bytes(const uint8_t* p) {
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
  return {_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes))};
}

inline void store_bytes(F32 x, int32_t zero, uint8_t* p) {
  const __m256i y = _mm256_add_epi32(_mm256_cvtps_epi32(x.v), _mm256_set1_epi32(zero));
  const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(y), _mm256_extracti128_si256(y, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packus_epi16(words, words));
}

}  // namespace
}  // namespace palm

#include "base/simd/int8/parts.h"

namespace palm {
namespace {

constexpr size_t kQuadRegisters = 3;
constexpr size_t kMaxVectors = 2;
constexpr int32_t kOffset = 0;

template <class S>
struct Quads;

// As 16-bit numbers, whose products in pairs cannot overflow: the first and the third of each
// four, then the others.
template <>
struct Quads<S32> {
  using Number = int16_t;
  __m256i even, odd;
  static constexpr size_t place(size_t lane, size_t i) {
    return i % 2 * 2 * S32::lanes + lane * 2 + i / 2;
  }
  static Quads load(const int16_t* p) {
    return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)),
            _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 2 * S32::lanes))};
  }
  static Quads set(uint32_t bytes) {
    const __m256i all = _mm256_set1_epi32(static_cast<int>(bytes));
    return {_mm256_and_si256(all, _mm256_set1_epi16(255)), _mm256_srli_epi16(all, 8)};
  }
  friend S32 dot(Quads bytes, Quads weights, S32 c) {
    const __m256i sum = _mm256_add_epi32(c.v, _mm256_madd_epi16(bytes.even, weights.even));
    return {_mm256_add_epi32(sum, _mm256_madd_epi16(bytes.odd, weights.odd))};
  }
};

constexpr bool kHasBytesOfRows = false;

}  // namespace
}  // namespace palm
