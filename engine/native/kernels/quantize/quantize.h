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

// y[i] = clip(round(x[i] / scale) + zero, 0, 255), halves to even, for i < n; a NaN becomes 0.
using ToBytesFn = void (*)(size_t n, const float* x, float scale, int32_t zero, uint8_t* y);

// y[i] = (x[i] - zero) * scale for i < n.
using FromBytesFn = void (*)(size_t n, const uint8_t* x, float scale, int32_t zero, float* y);

#define PALM_KERNEL(need, name) \
  void name(size_t n, const float* x, float scale, int32_t zero, uint8_t* y);
#include "kernels/quantize/to_bytes.inc"
#undef PALM_KERNEL
#define PALM_KERNEL(need, name) \
  void name(size_t n, const uint8_t* x, float scale, int32_t zero, float* y);
#include "kernels/quantize/from_bytes.inc"
#undef PALM_KERNEL

QuantizeFn find_quantize(uint32_t isa);
ToBytesFn find_to_bytes(uint32_t isa);
FromBytesFn find_from_bytes(uint32_t isa);

}  // namespace palm
