#include "base/simd.h"

#include "base/simd/math.h"
#include "kernels/softmax/softmax.h"

namespace palm {
namespace {

F32 max_or_nan(F32 a, F32 b) { return if_nan(a, a, max(a, b)); }

// Lanes of `x` from n on become `rest`.
F32 load_or(const float* p, size_t n, float rest) {
  float values[F32::lanes];
  for (size_t i = 0; i < F32::lanes; ++i) values[i] = i < n ? p[i] : rest;
  return F32::load(values);
}

F32 all_max(F32 v) {
  float values[F32::lanes];
  v.store(values);
  float most = values[0];
  for (size_t i = 1; i < F32::lanes; ++i)
    most = values[i] > most || values[i] != values[i] ? values[i] : most;
  return F32::set(most);
}

// The values of one softmax lie side by side.
void along(bool log, size_t n, const float* x, float* y) {
  constexpr float kLow = -__builtin_inff();
  const size_t whole = n / F32::lanes * F32::lanes, left = n - whole;
  F32 most = load_or(x + whole, left, kLow);
  for (size_t i = 0; i < whole; i += F32::lanes) most = max_or_nan(most, F32::load(x + i));
  most = all_max(most);
  F32 sum = F32::set(0.f);
  for (size_t i = 0; i < whole; i += F32::lanes) {
    const F32 e = exp(F32::load(x + i) - most);
    sum = sum + e;
    if (!log) e.store(y + i);
  }
  if (left) {
    const F32 e = exp(load_or(x + whole, left, kLow) - most);
    sum = sum + e;
    if (!log) e.store(y + whole, left);
  }
  float total = sum.sum();
  if (log) log_softmax_sums(1, &total);
  const F32 by = log ? F32::set(total) : F32::set(1.f) / F32::set(total);
  for (size_t i = 0; i < n; i += F32::lanes) {
    const size_t k = n - i < F32::lanes ? n - i : F32::lanes;
    const F32 v = log ? F32::load(x + i, k) - most - by : F32::load(y + i, k) * by;
    v.store(y + i, k);
  }
}

// n softmaxes side by side, each of `axis` values `inner` apart.
void across(bool log, size_t axis, size_t inner, size_t n, const float* x, float* y) {
  F32 most = F32::load(x, n);
  for (size_t k = 1; k < axis; ++k) most = max_or_nan(most, F32::load(x + k * inner, n));
  F32 sum = F32::set(0.f);
  for (size_t k = 0; k < axis; ++k) {
    const F32 e = exp(F32::load(x + k * inner, n) - most);
    sum = sum + e;
    if (!log) e.store(y + k * inner, n);
  }
  if (log) {
    float sums[F32::lanes];
    sum.store(sums);
    log_softmax_sums(n, sums);
    sum = F32::load(sums);
  }
  for (size_t k = 0; k < axis; ++k) {
    const F32 v =
        log ? F32::load(x + k * inner, n) - most - sum : F32::load(y + k * inner, n) / sum;
    v.store(y + k * inner, n);
  }
}

}  // namespace

void PALM_FN(softmax_f32)(bool log, size_t axis, size_t inner, const float* x, float* y) {
  if (axis == 0) return;
  if (inner == 1) return along(log, axis, x, y);
  for (size_t j = 0; j < inner; j += F32::lanes)
    across(log, axis, inner, inner - j < F32::lanes ? inner - j : F32::lanes, x + j, y + j);
}

}  // namespace palm
