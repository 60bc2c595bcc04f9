#pragma once
#include <cstddef>

#include "base/cpu.h"

namespace palm {

// y[i][c] = a[from[i] + c] * (1 - weight[i]) + b[to[i] + c] * weight[i], i < pixels, c < n.
struct Blend {
  size_t pixels, n;
  const float *a, *b;
  const size_t *from, *to;
  const float* weight;
  float* y;
};

using ResizeFn = void (*)(const Blend& blend);

#define PALM_KERNEL(need, name) void name(const Blend& blend);
#include "kernels/resize/kernels.inc"
#undef PALM_KERNEL

ResizeFn find_resize(uint32_t isa);

}  // namespace palm
