#pragma once
// SIMD128, and relaxed SIMD where the module may use it.
#include <wasm_simd128.h>

namespace palm {
namespace {

struct F32 {
  static constexpr size_t lanes = 4;
  // V8 has 16 on x86-64: it keeps one for itself, and a product that is not fused takes another.
  static constexpr size_t registers = 14;
  v128_t v;

  static F32 load(const float* p) { return {wasm_v128_load(p)}; }
  static F32 load(const float* p, size_t n) {
    if (n >= lanes) return load(p);
    float all[lanes] = {};
    for (size_t i = 0; i < n; ++i) all[i] = p[i];
    return load(all);
  }
  static F32 load_float16(const uint16_t* p) {
    // The exponent is put right by a product, which does it for numbers below the least normal too.
    const v128_t half = wasm_u32x4_load16x4(p);
    const v128_t bits = wasm_i32x4_shl(half & wasm_i32x4_const_splat(0x7fff), 13);
    const v128_t size = wasm_f32x4_mul(bits, wasm_f32x4_const_splat(0x1p112f));
    const v128_t exponent = wasm_i32x4_const_splat(0x7c00);
    const v128_t odd = wasm_i32x4_eq(half & exponent, exponent);
    const v128_t sign = wasm_i32x4_shl(half & wasm_i32x4_const_splat(0x8000), 16);
    return {size | (odd & wasm_i32x4_const_splat(0x7f800000)) | sign};
  }
  void store(float* p) const { wasm_v128_store(p, v); }
  void store(float* p, size_t n) const {
    if (n >= lanes) return store(p);
    v128_t a = v;
    if (n & 2) {
      wasm_v128_store64_lane(p, a, 0);
      a = wasm_i64x2_shuffle(a, a, 1, 1);
      p += 2;
    }
    if (n & 1) wasm_v128_store32_lane(p, a, 0);
  }
  static F32 set(float x) { return {wasm_f32x4_splat(x)}; }
  static F32 pick(const float* p, const int32_t* i, int32_t first) {
    return {wasm_f32x4_make(p[i[0] - first], p[i[1] - first], p[i[2] - first], p[i[3] - first])};
  }
  float sum() const {
    const v128_t a = wasm_f32x4_add(v, wasm_i64x2_shuffle(v, v, 1, 1));
    return wasm_f32x4_extract_lane(a, 0) + wasm_f32x4_extract_lane(a, 1);
  }
  friend F32 operator+(F32 a, F32 b) { return {wasm_f32x4_add(a.v, b.v)}; }
  friend F32 operator-(F32 a, F32 b) { return {wasm_f32x4_sub(a.v, b.v)}; }
  friend F32 operator*(F32 a, F32 b) { return {wasm_f32x4_mul(a.v, b.v)}; }
  friend F32 operator/(F32 a, F32 b) { return {wasm_f32x4_div(a.v, b.v)}; }
  friend F32 fma(F32 a, F32 b, F32 c) {
#if defined(__wasm_relaxed_simd__)
    return {wasm_f32x4_relaxed_madd(a.v, b.v, c.v)};
#else
    return a * b + c;
#endif
  }
  // As b < a ? a : b: those called min and max give NaN for a NaN in a as well.
  friend F32 max(F32 a, F32 b) { return {wasm_f32x4_pmax(b.v, a.v)}; }
  friend F32 min(F32 a, F32 b) { return {wasm_f32x4_pmin(b.v, a.v)}; }
  friend F32 less(F32 a, F32 b, F32 x, F32 y) {
    return {wasm_v128_bitselect(x.v, y.v, wasm_f32x4_lt(a.v, b.v))};
  }
  friend F32 if_nan(F32 a, F32 x, F32 y) {
    return {wasm_v128_bitselect(x.v, y.v, wasm_f32x4_ne(a.v, a.v))};
  }
  friend F32 abs(F32 a) { return {wasm_f32x4_abs(a.v)}; }
  friend F32 copy_sign(F32 a, F32 sign) {
    return {wasm_v128_bitselect(sign.v, a.v, wasm_i32x4_const_splat(INT32_MIN))};
  }
  friend F32 sqrt(F32 a) { return {wasm_f32x4_sqrt(a.v)}; }
  friend F32 floor(F32 a) { return {wasm_f32x4_floor(a.v)}; }
  friend F32 ceil(F32 a) { return {wasm_f32x4_ceil(a.v)}; }
  friend F32 round(F32 a) { return {wasm_f32x4_nearest(a.v)}; }
  // In two steps, so that a result below 2^-126 or above 2^127 comes out right.
  friend F32 scale(F32 a, F32 n) {
    const v128_t whole = wasm_i32x4_trunc_sat_f32x4(n.v), half = wasm_i32x4_shr(whole, 1);
    const auto power = [](v128_t e) {
      return wasm_i32x4_shl(wasm_i32x4_add(e, wasm_i32x4_const_splat(127)), 23);
    };
    const v128_t once = wasm_f32x4_mul(a.v, power(half));
    return {wasm_f32x4_mul(once, power(wasm_i32x4_sub(whole, half)))};
  }
};

constexpr bool kHasVectors = true;
constexpr bool kHasMasks = false;
constexpr bool kHasHalf = false;
using F32Half = F32;

}  // namespace
}  // namespace palm
