#pragma once
#include <immintrin.h>

namespace palm {
namespace {

struct F32 {
  static constexpr size_t lanes = 16;
  static constexpr size_t registers = 32;
  __m512 v;

  static __mmask16 mask(size_t n) { return static_cast<__mmask16>((1u << n) - 1); }
  static F32 load(const float* p) { return {_mm512_loadu_ps(p)}; }
  static F32 load(const float* p, size_t n) { return {_mm512_maskz_loadu_ps(mask(n), p)}; }
  static F32 load_float16(const uint16_t* p) {
    return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
  }
  void store(float* p) const { _mm512_storeu_ps(p, v); }
  void store(float* p, size_t n) const { _mm512_mask_storeu_ps(p, mask(n), v); }
  static F32 set(float x) { return {_mm512_set1_ps(x)}; }
  static F32 pick(const float* p, const int32_t* i, int32_t first) {
    const __m512i from = _mm512_sub_epi32(_mm512_loadu_si512(i), _mm512_set1_epi32(first));
    return {_mm512_permutexvar_ps(from, _mm512_loadu_ps(p))};
  }
  float sum() const { return _mm512_reduce_add_ps(v); }
  friend F32 operator+(F32 a, F32 b) { return {_mm512_add_ps(a.v, b.v)}; }
  friend F32 operator-(F32 a, F32 b) { return {_mm512_sub_ps(a.v, b.v)}; }
  friend F32 operator*(F32 a, F32 b) { return {_mm512_mul_ps(a.v, b.v)}; }
  friend F32 operator/(F32 a, F32 b) { return {_mm512_div_ps(a.v, b.v)}; }
  friend F32 fma(F32 a, F32 b, F32 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
  friend F32 max(F32 a, F32 b) { return {_mm512_max_ps(a.v, b.v)}; }
  friend F32 min(F32 a, F32 b) { return {_mm512_min_ps(a.v, b.v)}; }
  friend F32 less(F32 a, F32 b, F32 x, F32 y) {
    return {_mm512_mask_blend_ps(_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ), y.v, x.v)};
  }
  friend F32 if_nan(F32 a, F32 x, F32 y) {
    return {_mm512_mask_blend_ps(_mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q), y.v, x.v)};
  }
  friend F32 abs(F32 a) { return {_mm512_abs_ps(a.v)}; }
  friend F32 copy_sign(F32 a, F32 sign) {
    return {_mm512_or_ps(abs(a).v, _mm512_and_ps(_mm512_set1_ps(-0.f), sign.v))};
  }
  friend F32 sqrt(F32 a) { return {_mm512_sqrt_ps(a.v)}; }
  friend F32 floor(F32 a) {
    return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)};
  }
  friend F32 ceil(F32 a) {
    return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC)};
  }
  friend F32 round(F32 a) {
    return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
  }
  friend F32 scale(F32 a, F32 n) { return {_mm512_scalef_ps(a.v, n.v)}; }
};

constexpr bool kHasVectors = true;
constexpr bool kHasMasks = true;
constexpr bool kHasHalf = true;

// Zen 4 runs two 256-bit FMAs in the time of one of 512 bits.
struct F32Half {
  static constexpr size_t lanes = 8;
  __m256 v;

  static __mmask8 mask(size_t n) { return static_cast<__mmask8>((1u << n) - 1); }
  static F32Half load(const float* p) { return {_mm256_loadu_ps(p)}; }
  static F32Half load(const float* p, size_t n) { return {_mm256_maskz_loadu_ps(mask(n), p)}; }
  void store(float* p) const { _mm256_storeu_ps(p, v); }
  void store(float* p, size_t n) const { _mm256_mask_storeu_ps(p, mask(n), v); }
  static F32Half set(float x) { return {_mm256_set1_ps(x)}; }
  friend F32Half operator+(F32Half a, F32Half b) { return {_mm256_add_ps(a.v, b.v)}; }
  friend F32Half fma(F32Half a, F32Half b, F32Half c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
  friend F32Half max(F32Half a, F32Half b) { return {_mm256_max_ps(a.v, b.v)}; }
  friend F32Half min(F32Half a, F32Half b) { return {_mm256_min_ps(a.v, b.v)}; }
};

}  // namespace
}  // namespace palm
