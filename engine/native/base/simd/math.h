#pragma once
// Functions of F32; include it after base/simd.h. Errors in units in the last place, over all
// floats unless said (where the set has no fused fma: about one more).

namespace palm {
namespace {

// 2 ulp; overflows to infinity and underflows to zero as exp does.
[[maybe_unused]] PALM_INLINE F32 exp(F32 x) {
  x = min(F32::set(89.f), max(F32::set(-104.f), x));
  const F32 n = round(x * F32::set(1.44269504f));
  const F32 r = fma(n, F32::set(2.12194440e-4f), fma(n, F32::set(-0.693359375f), x));
  F32 p = F32::set(1.9875691500e-4f);
  p = fma(p, r, F32::set(1.3981999507e-3f));
  p = fma(p, r, F32::set(8.3334519073e-3f));
  p = fma(p, r, F32::set(4.1665795894e-2f));
  p = fma(p, r, F32::set(1.6666665459e-1f));
  p = fma(p, r, F32::set(5.0000001201e-1f));
  p = fma(p, r * r, r) + F32::set(1.f);
  return scale(p, n);
}

// 4 ulp where the result is above 1e-37.
[[maybe_unused]] PALM_INLINE F32 sigmoid(F32 x) {
  return F32::set(1.f) / (F32::set(1.f) + exp(F32::set(0.f) - x));
}

// 3 ulp.
[[maybe_unused]] PALM_INLINE F32 tanh(F32 x) {
  const F32 a = abs(x), s = x * x;
  F32 p = F32::set(-5.70498872745e-3f);
  p = fma(p, s, F32::set(2.06390887954e-2f));
  p = fma(p, s, F32::set(-5.37397155531e-2f));
  p = fma(p, s, F32::set(1.33314422036e-1f));
  p = fma(p, s, F32::set(-3.33332819422e-1f));
  const F32 small = fma(p * s, x, x);
  const F32 large = F32::set(1.f) - F32::set(2.f) / (exp(a + a) + F32::set(1.f));
  return less(a, F32::set(0.625f), small, copy_sign(large, x));
}

// 2 ulp.
[[maybe_unused]] PALM_INLINE F32 erf(F32 x) {
  const F32 t = abs(x), s = x * x;
  F32 r = fma(F32::set(-1.72853470e-5f), t, F32::set(3.83197126e-4f));
  const F32 u = fma(F32::set(-3.88396438e-3f), t, F32::set(2.42546219e-2f));
  r = fma(r, s, u);
  r = fma(r, t, F32::set(-1.06777877e-1f));
  r = fma(r, t, F32::set(-6.34846687e-1f));
  r = fma(r, t, F32::set(-1.28717512e-1f));
  r = fma(r, t, F32::set(0.f) - t);
  const F32 large = copy_sign(F32::set(1.f) - exp(r), x);
  F32 q = F32::set(-5.96761703e-4f);
  q = fma(q, s, F32::set(4.99119423e-3f));
  q = fma(q, s, F32::set(-2.67681349e-2f));
  q = fma(q, s, F32::set(1.12819925e-1f));
  q = fma(q, s, F32::set(-3.76125336e-1f));
  q = fma(q, s, F32::set(1.28379166e-1f));
  const F32 small = fma(q, x, x);
  return if_nan(x, x, less(t, F32::set(0.927734375f), small, large));
}

}  // namespace
}  // namespace palm
