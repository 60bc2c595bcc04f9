#pragma once
#include <cstddef>

#include "base/cpu.h"

namespace palm {

// y[i] = a[i] * (1 - weight) + b[i] * weight, i < n.
using ResizeFn = void (*)(size_t n, const float* a, const float* b, float weight, float* y);

#define PALM_KERNEL(need, name) \
  void name(size_t n, const float* a, const float* b, float weight, float* y);
#include "kernels/resize/kernels.inc"
#undef PALM_KERNEL

ResizeFn find_resize(uint32_t isa);

}  // namespace palm
