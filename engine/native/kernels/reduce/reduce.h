#pragma once
#include <cstddef>

#include "base/cpu.h"

namespace palm {

// kMax, kMin: a NaN wins. kL2: the root of the sum of squares.
enum class ReduceOp { kSum, kMean, kMax, kMin, kProd, kL2 };

// y[j] = op over i < rows of x[i * stride + j], j < n; rows > 0.
using ReduceFn = void (*)(ReduceOp op, size_t rows, size_t n, const float* x, size_t stride,
                          float* y);

#define PALM_KERNEL(need, name) \
  void name(ReduceOp op, size_t rows, size_t n, const float* x, size_t stride, float* y);
#include "kernels/reduce/kernels.inc"
#undef PALM_KERNEL

ReduceFn find_reduce(uint32_t isa);

}  // namespace palm
