#pragma once
#include <cstddef>

#include "base/bf16.h"
#include "base/cpu.h"

namespace palm {

// y[i][c] = the maximum (a NaN wins), or sum * scale, of x[t][i * step + c] over t < taps, for
// i < pixels, c < n. x has a pointer for each tap.
// Of bfloat16, sums are float and only the result is rounded.
template <class T>
using PoolOf = void (*)(bool max, size_t taps, size_t pixels, size_t n, const T* const* x,
                        size_t step, float scale, T* y);
using PoolFn = PoolOf<float>;

#define PALM_KERNEL(need, name)                                                                 \
  void name(bool max, size_t taps, size_t pixels, size_t n, const float* const* x, size_t step, \
            float scale, float* y);
#include "kernels/pool/kernels.inc"
#undef PALM_KERNEL

#define PALM_KERNEL(need, name)                                                                \
  void name(bool max, size_t taps, size_t pixels, size_t n, const Bf16* const* x, size_t step, \
            float scale, Bf16* y);
#include "kernels/pool/bf16_kernels.inc"
#undef PALM_KERNEL

PoolFn find_pool(uint32_t isa);
// Throws Error if the set has none.
PoolOf<Bf16> find_pool_bf16(uint32_t isa);

}  // namespace palm
