#pragma once
#include <cstddef>

#include "base/cpu.h"

namespace palm {

// y[(i * columns + k) * n + c] = x[i * n + c] where the whole part of indices[i * n + c] is
// first + k, else 0; i < pixels, k < columns, c < n. False if an index is not in [0, places): then
// y is of no use.
struct Unpool {
  size_t pixels, columns, n;
  size_t first, places;
  const float *x, *indices;
  float* y;
};

using UnpoolFn = bool (*)(const Unpool& unpool);

#define PALM_KERNEL(need, name) bool name(const Unpool& unpool);
#include "kernels/max_unpool/kernels.inc"
#undef PALM_KERNEL

UnpoolFn find_unpool(uint32_t isa);

}  // namespace palm
