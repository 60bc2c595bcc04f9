#pragma once
#include <cstddef>

#include "base/cpu.h"

namespace palm {

// For each of `groups` groups of n neighbouring columns of `rows` rows that are `stride` apart: y =
// (x - mean) / sqrt(variance + epsilon) * scale + bias, both over all of the group's elements in
// all rows; scale and bias, one for each column, may be null. `centre` false: the mean counts as 0.
// y may be x.
struct Normalize {
  size_t rows, groups, n, stride;
  const float *x, *scale, *bias;
  float epsilon;
  bool centre;
  float* y;
  float* scratch;  // 2 * groups * n, unless rows is 1
};

using NormalizeFn = void (*)(const Normalize& normalize);

#define PALM_KERNEL(need, name) void name(const Normalize& normalize);
#include "kernels/normalize/kernels.inc"
#undef PALM_KERNEL

NormalizeFn find_normalize(uint32_t isa);

}  // namespace palm
