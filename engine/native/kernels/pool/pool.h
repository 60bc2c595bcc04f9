#pragma once
#include <cstddef>

#include "base/cpu.h"

namespace palm {

// y[i][c] = the maximum (a NaN wins), or sum * scale, of x[t][i * step + c] over t < taps, for
// i < pixels, c < n. x has a pointer for each tap.
using PoolFn = void (*)(bool max, size_t taps, size_t pixels, size_t n, const float* const* x,
                        size_t step, float scale, float* y);

#define PALM_KERNEL(need, name)                                                                 \
  void name(bool max, size_t taps, size_t pixels, size_t n, const float* const* x, size_t step, \
            float scale, float* y);
#include "kernels/pool/kernels.inc"
#undef PALM_KERNEL

PoolFn find_pool(uint32_t isa);

}  // namespace palm
