#include "gaussian.h"

#include <algorithm>
#include <cmath>

namespace palm_kits {
namespace {

std::vector<float> weights_of(double sigma) {
  const int reach = (rounded(8 * sigma + 1) | 1) / 2;
  std::vector<double> values;
  double total = 0;
  for (int i = -reach; i <= reach; ++i) {
    values.push_back(std::exp(-0.5 * i * i / (sigma * sigma)));
    total += values.back();
  }
  std::vector<float> weights;
  for (double value : values) weights.push_back(static_cast<float>(value / total));
  return weights;
}

}  // namespace

template <int C>
Dense<float, C> soften(Rows<const float, C> x, double sigma) {
  constexpr double kLeast = 0.34;
  if (sigma < kLeast || !x.width || !x.height) return copied<float, C>(x);
  const std::vector<float> weights = weights_of(sigma);
  const int reach = static_cast<int>(weights.size() / 2), line = C * x.width;
  Dense<float, C> across(x.width, x.height), y(x.width, x.height);
  std::vector<float> wide(static_cast<size_t>(line + 2 * C * reach));
  for (int row = 0; row < x.height; ++row) {
    const float* const from = x.row(row);
    for (int i = 0; i < C * reach; ++i) {
      wide[static_cast<size_t>(i)] = from[i % C];
      wide[static_cast<size_t>(C * reach + line + i)] = from[line - C + i % C];
    }
    std::copy_n(from, line, wide.begin() + C * reach);
    float* const to = across.row(row);
    for (size_t t = 0; t < weights.size(); ++t) {
      const float* const at = wide.data() + static_cast<size_t>(C) * t;
      for (int i = 0; i < line; ++i) to[i] += at[i] * weights[t];
    }
  }
  for (int row = 0; row < x.height; ++row) {
    float* const to = y.row(row);
    for (int t = -reach; t <= reach; ++t) {
      const float* const at = across.row(clamped(row + t, 0, x.height - 1));
      const float weight = weights[static_cast<size_t>(t + reach)];
      for (int i = 0; i < line; ++i) to[i] += at[i] * weight;
    }
  }
  return y;
}

template Dense<float, 1> soften(Rows<const float, 1>, double);
template Dense<float, 3> soften(Rows<const float, 3>, double);
template Dense<float, 4> soften(Rows<const float, 4>, double);

}  // namespace palm_kits
