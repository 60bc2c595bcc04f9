#pragma once
// The compiler's own vectors of four: runs on every CPU, as SSE2 on x86-64.

namespace palm {
namespace {

struct F32 {
  static constexpr size_t lanes = 4;
  static constexpr size_t registers = 16;
  typedef float V __attribute__((vector_size(16)));
  typedef float Unaligned __attribute__((vector_size(16), aligned(4), may_alias));
  typedef int32_t I __attribute__((vector_size(16)));
  V v;

  static F32 load(const float* p) { return {*reinterpret_cast<const Unaligned*>(p)}; }
  static F32 load(const float* p, size_t n) {
    if (n >= lanes) return load(p);
    F32 a{};
    for (size_t i = 0; i < n; ++i) a.v[i] = p[i];
    return a;
  }
  static F32 load_float16(const uint16_t* p) {
    // The exponent is put right by a product, which does it for numbers below the least normal too.
    const I half{p[0], p[1], p[2], p[3]}, bits = (half & 0x7fff) << 13;
    const I size = reinterpret_cast<I>(reinterpret_cast<V>(bits) * 0x1p112f);
    const I odd = (half & 0x7c00) == 0x7c00;
    return {reinterpret_cast<V>(size | (odd & 0x7f800000) | (half & 0x8000) << 16)};
  }
  void store(float* p) const { *reinterpret_cast<Unaligned*>(p) = v; }
  void store(float* p, size_t n) const {
    if (n >= lanes) return store(p);
    for (size_t i = 0; i < n; ++i) p[i] = v[i];
  }
  static F32 set(float x) { return {V{x, x, x, x}}; }
  static F32 pick(const float* p, const int32_t* i, int32_t first) {
    const float all[lanes] = {p[i[0] - first], p[i[1] - first], p[i[2] - first], p[i[3] - first]};
    return load(all);
  }
  float sum() const { return (v[0] + v[2]) + (v[1] + v[3]); }
  friend F32 operator+(F32 a, F32 b) { return {a.v + b.v}; }
  friend F32 operator-(F32 a, F32 b) { return {a.v - b.v}; }
  friend F32 operator*(F32 a, F32 b) { return {a.v * b.v}; }
  friend F32 operator/(F32 a, F32 b) { return {a.v / b.v}; }
  friend F32 fma(F32 a, F32 b, F32 c) { return {a.v * b.v + c.v}; }
  friend F32 max(F32 a, F32 b) { return {a.v > b.v ? a.v : b.v}; }
  friend F32 min(F32 a, F32 b) { return {a.v < b.v ? a.v : b.v}; }
  friend F32 less(F32 a, F32 b, F32 x, F32 y) { return {a.v < b.v ? x.v : y.v}; }
  friend F32 if_nan(F32 a, F32 x, F32 y) { return {a.v != a.v ? x.v : y.v}; }
  friend F32 abs(F32 a) { return {reinterpret_cast<V>(reinterpret_cast<I>(a.v) & 0x7fffffff)}; }
  friend F32 copy_sign(F32 a, F32 sign) {
    return {reinterpret_cast<V>((reinterpret_cast<I>(a.v) & 0x7fffffff) |
                                (reinterpret_cast<I>(sign.v) & ~0x7fffffff))};
  }
  template <class Function>
  static F32 each(F32 a, Function f) {
    return {V{f(a.v[0]), f(a.v[1]), f(a.v[2]), f(a.v[3])}};
  }
  friend F32 sqrt(F32 a) {
    return each(a, [](float x) { return __builtin_sqrtf(x); });
  }
  friend F32 floor(F32 a) {
    return each(a, [](float x) { return __builtin_floorf(x); });
  }
  friend F32 ceil(F32 a) {
    return each(a, [](float x) { return __builtin_ceilf(x); });
  }
  friend F32 round(F32 a) {
    return each(a, [](float x) { return __builtin_nearbyintf(x); });
  }
  // In two steps, so that a result below 2^-126 or above 2^127 comes out right.
  friend F32 scale(F32 a, F32 n) {
    const I whole = __builtin_convertvector(if_nan(n, set(0.f), n).v, I), half = whole >> 1;
    const auto power = [](I e) { return reinterpret_cast<V>((e + 127) << 23); };
    return {a.v * power(half) * power(whole - half)};
  }
};

constexpr bool kHasVectors = false;
constexpr bool kHasMasks = false;
constexpr bool kHasHalf = false;
using F32Half = F32;

}  // namespace
}  // namespace palm
