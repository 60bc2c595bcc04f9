#pragma once
// What the set adds to AVX-512: numbers in memory as bfloat16, and sums of products of pairs of
// them. Denormal numbers count as zero here, and results that would be denormal become zero.
#include "base/bf16.h"
#include "base/simd/avx512.h"

namespace palm {
namespace {

inline F32 load(const Bf16* p, F32*) {
  const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16))};
}
inline F32 load(const Bf16* p, size_t n, F32*) {
  const __m256i half = _mm256_maskz_loadu_epi16(F32::mask(n), p);
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16))};
}
inline F32Half load(const Bf16* p, F32Half*) {
  const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16))};
}
inline void store(F32 x, Bf16* p) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), (__m256i)_mm512_cvtneps_pbh(x.v));
}
inline void store_both(F32 x, F32 next, Bf16* p) {
  _mm512_storeu_si512(p, (__m512i)_mm512_cvtne2ps_pbh(next.v, x.v));
}
// Zen 4 takes 20 cycles for a masked store of words, so these go in pairs.
inline void store(F32 x, Bf16* p, size_t n) {
  const auto halves = (__m256i)_mm512_cvtneps_pbh(x.v);
  _mm256_mask_storeu_epi32(p, F32Half::mask(n / 2), halves);
  if (n % 2) {
    Bf16 each[16];
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(each), halves);
    p[n - 1] = each[n - 1];
  }
}
inline void store(F32Half x, Bf16* p) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), (__m128i)_mm256_cvtneps_pbh(x.v));
}

using Mask = __mmask16;
inline Mask mask_of(size_t n) { return F32::mask(n); }

// Numbers as they are, compared as integers.
struct Bf16s {
  static constexpr size_t lanes = 32;
  __m512i v;
  static Bf16s load(const Bf16* p) { return {_mm512_loadu_si512(p)}; }
  static Bf16s set(Bf16 x) { return {_mm512_set1_epi16(static_cast<short>(x.bits))}; }
  void store(Bf16* p) const { _mm512_storeu_si512(p, v); }
  // Integers in the order of the numbers, NaNs outside of the infinite ones by their sign; twice it
  // is the number again.
  Bf16s key() const {
    const __m512i below = _mm512_srli_epi16(_mm512_srai_epi16(v, 15), 1);
    return {_mm512_xor_si512(v, below)};
  }
  friend Bf16s max(Bf16s a, Bf16s b) { return {_mm512_max_epi16(a.v, b.v)}; }
  friend Bf16s min(Bf16s a, Bf16s b) { return {_mm512_min_epi16(a.v, b.v)}; }
  // a < b ? x : y
  friend Bf16s less(Bf16s a, Bf16s b, Bf16s x, Bf16s y) {
    return {_mm512_mask_mov_epi16(y.v, _mm512_cmplt_epi16_mask(a.v, b.v), x.v)};
  }
  friend bool any_less(Bf16s a, Bf16s b) { return _mm512_cmplt_epi16_mask(a.v, b.v) != 0; }
};

// A pair of numbers for each lane of V, and c + the sum of two products in each lane.
template <class V>
struct Pairs;

template <>
struct Pairs<F32> {
  __m512i v;
  static constexpr size_t place(size_t lane, size_t second) { return lane * 2 + second; }
  static Pairs load(const Bf16* p) { return {_mm512_loadu_si512(p)}; }
  static Pairs set(uint32_t pair) { return {_mm512_set1_epi32(static_cast<int>(pair))}; }
  // Numbers as the first of pairs whose second is zero.
  static Pairs firsts(const Bf16* p, Mask mask) {
    // One instruction, which reads what the mask has; of GCC's two the load needs an ALU, too.
    __m512i v;
    asm("vpmovzxwd %1, %0%{%2%}%{z%}"
        : "=v"(v)
        : "m"(*reinterpret_cast<const __m256i_u*>(p)), "Yk"(mask));
    return {v};
  }
  // Pairs of two firsts.
  friend Pairs join(Pairs a, Pairs b) { return {_mm512_or_si512(a.v, _mm512_slli_epi32(b.v, 16))}; }
  friend F32 first_of(Pairs a) { return {_mm512_castsi512_ps(_mm512_slli_epi32(a.v, 16))}; }
  friend F32 second_of(Pairs a) {
    return {_mm512_castsi512_ps(_mm512_and_si512(a.v, _mm512_set1_epi32(-65536)))};
  }
  friend F32 dot(Pairs a, Pairs b, F32 c) {
    return {_mm512_dpbf16_ps(c.v, (__m512bh)a.v, (__m512bh)b.v)};
  }
};

template <>
struct Pairs<F32Half> {
  __m256i v;
  static Pairs load(const Bf16* p) {
    return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))};
  }
  static Pairs set(uint32_t pair) { return {_mm256_set1_epi32(static_cast<int>(pair))}; }
  friend F32Half dot(Pairs a, Pairs b, F32Half c) {
    return {_mm256_dpbf16_ps(c.v, (__m256bh)a.v, (__m256bh)b.v)};
  }
};

}  // namespace
}  // namespace palm
