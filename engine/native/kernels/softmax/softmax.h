#pragma once
#include <cstddef>

#include "base/cpu.h"

namespace palm {

// `rows` softmaxes over `axis` vectors of `inner` values: y[k][j] = exp(x[k][j] - m[j]) / sum over
// k, with m the maximum over k; its logarithm if `log`. The C library's log.
using SoftmaxFn = void (*)(bool log, size_t rows, size_t axis, size_t inner, const float* x,
                           float* y);

#define PALM_KERNEL(need, name) \
  void name(bool log, size_t rows, size_t axis, size_t inner, const float* x, float* y);
#include "kernels/softmax/kernels.inc"
#undef PALM_KERNEL

// The logarithm of lane 0 .. n - 1, in place.
void log_softmax_sums(size_t n, float* sums);

SoftmaxFn find_softmax(uint32_t isa);

}  // namespace palm
