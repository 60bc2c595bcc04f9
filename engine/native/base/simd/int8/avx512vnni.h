#pragma once
#include "base/simd/int8/channels_x86.h"

namespace palm {
namespace {

struct S32 {
  static constexpr size_t lanes = 16;
  __m512i v;
  static S32 load(const int32_t* p) { return {_mm512_loadu_si512(p)}; }
  void store(int32_t* p) const { _mm512_storeu_si512(p, v); }
};

struct S32Half {
  static constexpr size_t lanes = 8;
  __m256i v;
  static S32Half load(const int32_t* p) {
    return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))};
  }
  void store(int32_t* p) const { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v); }
};

inline F32 to_float(S32 a) { return {_mm512_cvtepi32_ps(a.v)}; }

inline F32 load_bytes(const uint8_t* p, size_t n, uint8_t other) {
  const __m128i all = _mm_set1_epi8(static_cast<char>(other));
  const __m128i bytes = _mm_mask_loadu_epi8(all, F32::mask(n), p);
  return {_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes))};
}

inline void store_bytes(F32 x, int32_t zero, uint8_t* p, size_t n) {
  const __m512i y = _mm512_add_epi32(_mm512_cvtps_epi32(x.v), _mm512_set1_epi32(zero));
  _mm_mask_storeu_epi8(p, F32::mask(n), _mm512_cvtepi32_epi8(y));
}

constexpr size_t kQuadRegisters = 1;
constexpr size_t kMaxVectors = 2;
constexpr int32_t kOffset = 0;

template <class S>
struct Quads;

template <>
struct Quads<S32> {
  using Number = int8_t;
  __m512i v;
  static constexpr size_t place(size_t lane, size_t i) { return lane * 4 + i; }
  static Quads load(const int8_t* p) { return {_mm512_loadu_si512(p)}; }
  static Quads set(uint32_t bytes) { return {_mm512_set1_epi32(static_cast<int>(bytes))}; }
  friend S32 dot(Quads bytes, Quads weights, S32 c) {
    return {_mm512_dpbusd_epi32(c.v, bytes.v, weights.v)};
  }
};

template <>
struct Quads<S32Half> {
  __m256i v;
  static Quads load(const int8_t* p) {
    return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))};
  }
  static Quads of(Quads<S32> bytes) { return {_mm512_castsi512_si256(bytes.v)}; }
  friend S32Half dot(Quads bytes, Quads weights, S32Half c) {
    return {_mm256_dpbusd_epi32(c.v, bytes.v, weights.v)};
  }
};

constexpr bool kHasBytesOfRows = true;

template <int kRows>
inline void store_bytes_of_rows(Rows<kRows>, ByteRange range, const S32* sums, const float* scale,
                                uint8_t* y, size_t stride) {
  const __m512 by = _mm512_loadu_ps(scale);
  __m512i r[4];
  for (int i = 0; i < 4; ++i) {
    r[i] =
        i < kRows ? _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_cvtepi32_ps(sums[i].v), by)) : r[i - 1];
  }
  const __m512i z = _mm512_set1_epi16(range.zero);
  const __m512i a = _mm512_adds_epi16(_mm512_packs_epi32(r[0], r[1]), z);
  const __m512i b = kRows > 2 ? _mm512_adds_epi16(_mm512_packs_epi32(r[2], r[3]), z) : a;
  __m512i q = _mm512_packus_epi16(a, b);
  q = _mm512_permutexvar_epi32(
      _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), q);
  q = _mm512_max_epu8(q, _mm512_set1_epi8(static_cast<char>(range.low)));
  q = _mm512_min_epu8(q, _mm512_set1_epi8(static_cast<char>(range.high)));
  const auto row = [&](size_t i) { return reinterpret_cast<__m128i*>(y + i * stride); };
  _mm_storeu_si128(row(0), _mm512_castsi512_si128(q));
  if (kRows > 1) _mm_storeu_si128(row(1), _mm512_extracti32x4_epi32(q, 1));
  if (kRows > 2) _mm_storeu_si128(row(2), _mm512_extracti32x4_epi32(q, 2));
  if (kRows > 3) _mm_storeu_si128(row(3), _mm512_extracti32x4_epi32(q, 3));
}

template <int kRows>
inline void store_bytes_of_rows(Rows<kRows>, ByteRange range, const S32Half* sums,
                                const float* scale, uint8_t* y, size_t stride) {
  const __m256 by = _mm256_loadu_ps(scale);
  __m256i r[4];
  for (int i = 0; i < 4; ++i) {
    r[i] =
        i < kRows ? _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_cvtepi32_ps(sums[i].v), by)) : r[i - 1];
  }
  const __m256i z = _mm256_set1_epi16(range.zero);
  const __m256i a = _mm256_adds_epi16(_mm256_packs_epi32(r[0], r[1]), z);
  const __m256i b = _mm256_adds_epi16(_mm256_packs_epi32(r[2], r[3]), z);
  __m256i q = _mm256_packus_epi16(a, b);
  q = _mm256_permutevar8x32_epi32(q, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
  q = _mm256_max_epu8(q, _mm256_set1_epi8(static_cast<char>(range.low)));
  q = _mm256_min_epu8(q, _mm256_set1_epi8(static_cast<char>(range.high)));
  const __m128i first = _mm256_castsi256_si128(q), second = _mm256_extracti128_si256(q, 1);
  const auto row = [&](size_t i) { return reinterpret_cast<__m128i*>(y + i * stride); };
  _mm_storel_epi64(row(0), first);
  if (kRows > 1) _mm_storel_epi64(row(1), _mm_unpackhi_epi64(first, first));
  if (kRows > 2) _mm_storel_epi64(row(2), second);
  if (kRows > 3) _mm_storel_epi64(row(3), _mm_unpackhi_epi64(second, second));
}

}  // namespace
}  // namespace palm
