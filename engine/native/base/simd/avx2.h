#pragma once
#include <immintrin.h>

namespace palm {
namespace {

struct F32 {
  static constexpr size_t lanes = 8;
  static constexpr size_t registers = 16;
  __m256 v;

  static __m256i mask(size_t n) {
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), lane);
  }
  static F32 load(const float* p) { return {_mm256_loadu_ps(p)}; }
  static F32 load(const float* p, size_t n) { return {_mm256_maskload_ps(p, mask(n))}; }
  static F32 load_float16(const uint16_t* p) {
    return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
  }
  void store(float* p) const { _mm256_storeu_ps(p, v); }
  // In pieces: masked stores are slow on AMD.
  __attribute__((noinline)) void store(float* p, size_t n) const {
    if (n >= 8) return store(p);
    __m128 a = _mm256_castps256_ps128(v);
    if (n & 4) {
      _mm_storeu_ps(p, a);
      a = _mm256_extractf128_ps(v, 1);
      p += 4;
    }
    if (n & 2) {
      _mm_storel_pi(reinterpret_cast<__m64*>(p), a);
      a = _mm_movehl_ps(a, a);
      p += 2;
    }
    if (n & 1) _mm_store_ss(p, a);
  }
  static F32 set(float x) { return {_mm256_set1_ps(x)}; }
  static F32 pick(const float* p, const int32_t* i, int32_t first) {
    const __m256i from = _mm256_sub_epi32(
        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(i)), _mm256_set1_epi32(first));
    return {_mm256_permutevar8x32_ps(_mm256_loadu_ps(p), from)};
  }
  float sum() const {
    __m128 a = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    a = _mm_add_ps(a, _mm_movehl_ps(a, a));
    return _mm_cvtss_f32(_mm_add_ss(a, _mm_movehdup_ps(a)));
  }
  friend F32 operator+(F32 a, F32 b) { return {_mm256_add_ps(a.v, b.v)}; }
  friend F32 operator-(F32 a, F32 b) { return {_mm256_sub_ps(a.v, b.v)}; }
  friend F32 operator*(F32 a, F32 b) { return {_mm256_mul_ps(a.v, b.v)}; }
  friend F32 operator/(F32 a, F32 b) { return {_mm256_div_ps(a.v, b.v)}; }
  friend F32 fma(F32 a, F32 b, F32 c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
  friend F32 max(F32 a, F32 b) { return {_mm256_max_ps(a.v, b.v)}; }
  friend F32 min(F32 a, F32 b) { return {_mm256_min_ps(a.v, b.v)}; }
  friend F32 less(F32 a, F32 b, F32 x, F32 y) {
    return {_mm256_blendv_ps(y.v, x.v, _mm256_cmp_ps(a.v, b.v, _CMP_LT_OQ))};
  }
  friend F32 if_nan(F32 a, F32 x, F32 y) {
    return {_mm256_blendv_ps(y.v, x.v, _mm256_cmp_ps(a.v, a.v, _CMP_UNORD_Q))};
  }
  friend F32 abs(F32 a) { return {_mm256_andnot_ps(_mm256_set1_ps(-0.f), a.v)}; }
  friend F32 copy_sign(F32 a, F32 sign) {
    return {_mm256_or_ps(abs(a).v, _mm256_and_ps(_mm256_set1_ps(-0.f), sign.v))};
  }
  friend F32 sqrt(F32 a) { return {_mm256_sqrt_ps(a.v)}; }
  friend F32 floor(F32 a) { return {_mm256_floor_ps(a.v)}; }
  friend F32 ceil(F32 a) { return {_mm256_ceil_ps(a.v)}; }
  friend F32 round(F32 a) {
    return {_mm256_round_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
  }
  // In two steps, so that a result below 2^-126 or above 2^127 comes out right.
  friend F32 scale(F32 a, F32 n) {
    const __m256i whole = _mm256_cvtps_epi32(n.v), half = _mm256_srai_epi32(whole, 1);
    const auto power = [](__m256i e) {
      return _mm256_castsi256_ps(
          _mm256_slli_epi32(_mm256_add_epi32(e, _mm256_set1_epi32(127)), 23));
    };
    const __m256 once = _mm256_mul_ps(a.v, power(half));
    return {_mm256_mul_ps(once, power(_mm256_sub_epi32(whole, half)))};
  }
};

constexpr bool kHasVectors = true;
constexpr bool kHasMasks = false;
constexpr bool kHasHalf = false;
using F32Half = F32;

}  // namespace
}  // namespace palm
