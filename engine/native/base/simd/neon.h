#pragma once
#include <arm_neon.h>

namespace palm {
namespace {

struct F32 {
  static constexpr size_t lanes = 4;
  static constexpr size_t registers = 32;
  float32x4_t v;

  static F32 load(const float* p) { return {vld1q_f32(p)}; }
  static F32 load_float16(const uint16_t* p) {
    return {vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)))};
  }
  static F32 load(const float* p, size_t n) {
    if (n >= lanes) return load(p);
    float all[lanes] = {};
    for (size_t i = 0; i < n; ++i) all[i] = p[i];
    return load(all);
  }
  void store(float* p) const { vst1q_f32(p, v); }
  void store(float* p, size_t n) const {
    if (n >= lanes) return store(p);
    float32x2_t a = vget_low_f32(v);
    if (n & 2) {
      vst1_f32(p, a);
      a = vget_high_f32(v);
      p += 2;
    }
    if (n & 1) vst1_lane_f32(p, a, 0);
  }
  static F32 set(float x) { return {vdupq_n_f32(x)}; }
  static F32 pick(const float* p, const int32_t* i, int32_t first) {
    const float all[lanes] = {p[i[0] - first], p[i[1] - first], p[i[2] - first], p[i[3] - first]};
    return load(all);
  }
  float sum() const {
    const float32x2_t a = vadd_f32(vget_low_f32(v), vget_high_f32(v));
    return vget_lane_f32(vpadd_f32(a, a), 0);
  }
  friend F32 operator+(F32 a, F32 b) { return {vaddq_f32(a.v, b.v)}; }
  friend F32 operator-(F32 a, F32 b) { return {vsubq_f32(a.v, b.v)}; }
  friend F32 operator*(F32 a, F32 b) { return {vmulq_f32(a.v, b.v)}; }
  friend F32 operator/(F32 a, F32 b) { return {vdivq_f32(a.v, b.v)}; }
  friend F32 fma(F32 a, F32 b, F32 c) { return {vfmaq_f32(c.v, a.v, b.v)}; }
  // Not FMAX and FMIN: those give NaN for a NaN in a as well.
  friend F32 max(F32 a, F32 b) { return {vbslq_f32(vcgtq_f32(a.v, b.v), a.v, b.v)}; }
  friend F32 min(F32 a, F32 b) { return {vbslq_f32(vcltq_f32(a.v, b.v), a.v, b.v)}; }
  friend F32 less(F32 a, F32 b, F32 x, F32 y) {
    return {vbslq_f32(vcltq_f32(a.v, b.v), x.v, y.v)};
  }
  friend F32 if_nan(F32 a, F32 x, F32 y) { return {vbslq_f32(vceqq_f32(a.v, a.v), y.v, x.v)}; }
  friend F32 abs(F32 a) { return {vabsq_f32(a.v)}; }
  friend F32 copy_sign(F32 a, F32 sign) {
    return {vbslq_f32(vdupq_n_u32(0x80000000u), sign.v, a.v)};
  }
  friend F32 sqrt(F32 a) { return {vsqrtq_f32(a.v)}; }
  friend F32 floor(F32 a) { return {vrndmq_f32(a.v)}; }
  friend F32 ceil(F32 a) { return {vrndpq_f32(a.v)}; }
  friend F32 round(F32 a) { return {vrndnq_f32(a.v)}; }
  // In two steps, so that a result below 2^-126 or above 2^127 comes out right.
  friend F32 scale(F32 a, F32 n) {
    const int32x4_t whole = vcvtnq_s32_f32(n.v), half = vshrq_n_s32(whole, 1);
    const auto power = [](int32x4_t e) {
      return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(e, vdupq_n_s32(127)), 23));
    };
    return {vmulq_f32(vmulq_f32(a.v, power(half)), power(vsubq_s32(whole, half)))};
  }
};

constexpr bool kHasVectors = true;
constexpr bool kHasMasks = false;
constexpr bool kHasHalf = false;
using F32Half = F32;

}  // namespace
}  // namespace palm
