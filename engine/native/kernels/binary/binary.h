#pragma once
#include <cstddef>
#include <limits>

#include "base/cpu.h"
#include "base/step.h"

namespace palm {

// kMax, kMin: a NaN wins, as in numpy. kPrelu: a where a > 0, else a * b. kPow is the C library's.
// kMulAdd: a * b + z.
enum class BinaryOp { kAdd, kSub, kMul, kDiv, kMax, kMin, kPow, kPrelu, kMulAdd };

// y[i * n + j] = clip(op(a[i * a_row + j * a_step], b[i * b_row + j * b_step])), i < rows, j < n.
// A step is 0 or 1; z is as y, and null but for kMulAdd. y may be a, b or z where that has the same
// elements.
struct Binary {
  BinaryOp op;
  size_t rows, n;
  const float* a;
  ptrdiff_t a_row, a_step;
  const float* b;
  ptrdiff_t b_row, b_step;
  float* y;
  float low, high;
  const float* z = nullptr;
};

using BinaryFn = void (*)(const Binary& binary);

#define PALM_KERNEL(need, name) void name(const Binary& binary);
#include "kernels/binary/kernels.inc"
#undef PALM_KERNEL

// kPow, which the kernels above leave to this; steps may be any number.
void binary_f32_library(const Binary& binary);

BinaryFn find_binary(uint32_t isa);

// The bounds of the attributes activation "clip" and activation_params; none, without them.
struct Clip {
  explicit Clip(const Attrs& attrs);
  float low = -std::numeric_limits<float>::infinity();
  float high = std::numeric_limits<float>::infinity();
};

// A step for `op` over the node's first two inputs, with the strides that `b_strides` names.
StepPtr make_strided_binary(const Node& node, BinaryOp op, const char* a_strides,
                            const char* b_strides);

}  // namespace palm
