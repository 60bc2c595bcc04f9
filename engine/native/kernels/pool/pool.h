#pragma once
#include <cstddef>

#include "base/cpu.h"

namespace palm {

// Pools `taps` vectors of n channels into y: their maximum (a NaN wins), or sum * scale.
// x has a pointer for each tap.
using PoolFn = void (*)(bool max, size_t taps, size_t n, const float* const* x, float scale,
                        float* y);

#define PALM_KERNEL(need, name) \
  void name(bool max, size_t taps, size_t n, const float* const* x, float scale, float* y);
#include "kernels/pool/kernels.inc"
#undef PALM_KERNEL

PoolFn find_pool(uint32_t isa);

}  // namespace palm
