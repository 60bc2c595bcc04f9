#pragma once
#include <cstddef>
#include <cstdint>

#include "base/cpu.h"

namespace palm {

// q[i] = clip(round(x[i] / scale) + zero, low, high), halves to even, and y[i] = (q[i] - zero) *
// scale for i < n; a NaN becomes `low`. y may be x.
using QuantizeFn = void (*)(size_t n, const float* x, float scale, float zero, float low,
                            float high, float* y);

#define PALM_KERNEL(need, name) \
  void name(size_t n, const float* x, float scale, float zero, float low, float high, float* y);
#include "kernels/quantize/kernels.inc"
#undef PALM_KERNEL

QuantizeFn find_quantize(uint32_t isa);

}  // namespace palm
