#include "base/simd.h"

#include "base/simd/math.h"
#include "kernels/softmax/softmax.h"

namespace palm {
namespace {

F32 max_or_nan(F32 a, F32 b) { return if_nan(a, a, max(a, b)); }

// Lanes from n on become `rest`.
F32 load_or(const float* p, size_t n, float rest) {
  alignas(64) static constexpr float kLanes[] = {0, 1, 2,  3,  4,  5,  6,  7,
                                                 8, 9, 10, 11, 12, 13, 14, 15};
  static_assert(sizeof kLanes >= sizeof(float) * F32::lanes, "a number for each lane");
  return less(F32::load(kLanes), F32::set(static_cast<float>(n)), F32::load(p, n), F32::set(rest));
}

F32 all_max(F32 v) {
  float values[F32::lanes];
  v.store(values);
  for (size_t half = F32::lanes / 2; half; half /= 2) {
    for (size_t i = 0; i < half; ++i) {
      const float a = values[i], b = values[i + half];
      values[i] = a != a || a > b ? a : b;
    }
  }
  return F32::set(values[0]);
}

// The values of one softmax lie side by side.
void along(bool log, size_t n, const float* x, float* y) {
  constexpr float kLow = -__builtin_inff();
  const size_t whole = n / F32::lanes * F32::lanes, left = n - whole;
  F32 most = load_or(x + whole, left, kLow);
  F32 other = most;
  size_t i = 0;
  for (; i + F32::lanes < whole; i += 2 * F32::lanes) {
    most = max_or_nan(most, F32::load(x + i));
    other = max_or_nan(other, F32::load(x + i + F32::lanes));
  }
  if (i < whole) most = max_or_nan(most, F32::load(x + i));
  most = all_max(max_or_nan(most, other));
  F32 sum = F32::set(0.f);
  for (i = 0; i < whole; i += F32::lanes) {
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
  const auto result = [&](size_t at, size_t k) {
    return log ? F32::load(x + at, k) - most - by : F32::load(y + at, k) * by;
  };
  for (i = 0; i < whole; i += F32::lanes) result(i, F32::lanes).store(y + i);
  if (left) result(whole, left).store(y + whole, left);
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

// Of so few values that as many softmaxes as a vector has lanes are taken at once.
constexpr size_t kNarrow = 32;

void narrow(bool log, size_t rows, size_t axis, const float* x, float* y) {
  float values[kNarrow * F32::lanes] = {};
  for (size_t row = 0; row < rows; row += F32::lanes) {
    const size_t n = rows - row < F32::lanes ? rows - row : F32::lanes;
    for (size_t i = 0; i < n; ++i)
      for (size_t k = 0; k < axis; ++k) values[k * F32::lanes + i] = x[i * axis + k];
    across(log, axis, F32::lanes, F32::lanes, values, values);
    for (size_t i = 0; i < n; ++i)
      for (size_t k = 0; k < axis; ++k) y[i * axis + k] = values[k * F32::lanes + i];
    x += n * axis, y += n * axis;
  }
}

}  // namespace

void PALM_FN(softmax_f32)(bool log, size_t rows, size_t axis, size_t inner, const float* x,
                          float* y) {
  if (axis == 0) return;
  if (inner == 1 && axis <= kNarrow) return narrow(log, rows, axis, x, y);
  for (size_t row = 0; row < rows; ++row, x += axis * inner, y += axis * inner) {
    if (inner == 1) {
      along(log, axis, x, y);
      continue;
    }
    for (size_t j = 0; j < inner; j += F32::lanes)
      across(log, axis, inner, inner - j < F32::lanes ? inner - j : F32::lanes, x + j, y + j);
  }
}

}  // namespace palm
