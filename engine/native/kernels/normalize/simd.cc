#include "base/simd.h"

#include "kernels/normalize/normalize.h"

namespace palm {
namespace {

// Sums are taken in two steps, first the mean and then the squares of what differs from it: less is
// lost than by the mean of squares.
struct Sums {
  F32 part[4] = {F32::set(0.f), F32::set(0.f), F32::set(0.f), F32::set(0.f)};
  float sum() const { return ((part[0] + part[1]) + (part[2] + part[3])).sum(); }
};

float sum(size_t n, const float* x) {
  Sums sums;
  size_t i = 0, k = 0;
  for (; i + F32::lanes <= n; i += F32::lanes, ++k)
    sums.part[k % 4] = sums.part[k % 4] + F32::load(x + i);
  if (i < n) sums.part[k % 4] = sums.part[k % 4] + F32::load(x + i, n - i);
  return sums.sum();
}

float squares(size_t n, const float* x, float mean) {
  Sums sums;
  const F32 m = F32::set(mean);
  size_t i = 0, k = 0;
  for (; i + F32::lanes <= n; i += F32::lanes, ++k) {
    const F32 d = F32::load(x + i) - m;
    sums.part[k % 4] = fma(d, d, sums.part[k % 4]);
  }
  float rest = 0;
  for (; i < n; ++i) rest += (x[i] - mean) * (x[i] - mean);
  return sums.sum() + rest;
}

void scale_row(size_t n, const float* x, float mean, float factor, const float* scale,
               const float* bias, float* y) {
  const F32 m = F32::set(mean), f = F32::set(factor);
  for (size_t i = 0; i < n; i += F32::lanes) {
    const size_t k = n - i < F32::lanes ? n - i : F32::lanes;
    F32 v = (F32::load(x + i, k) - m) * f;
    if (scale) v = v * F32::load(scale + i, k);
    if (bias) v = v + F32::load(bias + i, k);
    v.store(y + i, k);
  }
}

}  // namespace

void PALM_FN(normalize_f32)(const Normalize& g) {
  const size_t width = g.groups * g.n;
  const float count = static_cast<float>(g.rows * g.n);
  if (g.rows == 1) {
    for (size_t j = 0; j < width; j += g.n) {
      const float* const x = g.x + j;
      const float mean = g.centre ? sum(g.n, x) / count : 0.f;
      const float factor = 1.f / __builtin_sqrtf(squares(g.n, x, mean) / count + g.epsilon);
      scale_row(g.n, x, mean, factor, g.scale ? g.scale + j : nullptr,
                g.bias ? g.bias + j : nullptr, g.y + j);
    }
    return;
  }
  // Columns side by side: their means, then the squares of what differs from the group's.
  float* const means = g.scratch;
  float* const factors = g.scratch + width;
  const auto each = [&](auto f) {
    for (size_t j = 0; j < width; j += F32::lanes)
      f(j, width - j < F32::lanes ? width - j : F32::lanes);
  };
  const auto over_groups = [&](float* values, auto f) {
    for (size_t j = 0; j < width; j += g.n) {
      float total = 0;
      for (size_t i = 0; i < g.n; ++i) total += values[j + i];
      const float result = f(total);
      for (size_t i = 0; i < g.n; ++i) values[j + i] = result;
    }
  };
  for (size_t j = 0; j < width; ++j) means[j] = 0.f;
  if (g.centre) {
    each([&](size_t j, size_t n) {
      F32 total = F32::set(0.f);
      for (size_t i = 0; i < g.rows; ++i) total = total + F32::load(g.x + i * g.stride + j, n);
      total.store(means + j, n);
    });
    over_groups(means, [&](float total) { return total / count; });
  }
  each([&](size_t j, size_t n) {
    const F32 mean = F32::load(means + j, n);
    F32 total = F32::set(0.f);
    for (size_t i = 0; i < g.rows; ++i) {
      const F32 d = F32::load(g.x + i * g.stride + j, n) - mean;
      total = fma(d, d, total);
    }
    total.store(factors + j, n);
  });
  over_groups(factors,
              [&](float total) { return 1.f / __builtin_sqrtf(total / count + g.epsilon); });
  each([&](size_t j, size_t n) {
    const F32 mean = F32::load(means + j, n), factor = F32::load(factors + j, n);
    const F32 scale = g.scale ? F32::load(g.scale + j, n) : F32::set(1.f);
    const F32 bias = g.bias ? F32::load(g.bias + j, n) : F32::set(0.f);
    for (size_t i = 0; i < g.rows; ++i) {
      const F32 v = (F32::load(g.x + i * g.stride + j, n) - mean) * factor;
      fma(v, scale, bias).store(g.y + i * g.stride + j, n);
    }
  });
}

}  // namespace palm
