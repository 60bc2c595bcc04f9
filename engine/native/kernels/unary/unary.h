#pragma once
#include <cstddef>
#include <vector>

#include "base/cpu.h"
#include "base/needs.h"
#include "base/step.h"

namespace palm {

// Elementwise functions as ONNX has them; alpha and beta too, but for clip, where they are the
// bounds, and selu, where beta is gamma. base/simd/math.h says how exact exp, sigmoid, tanh and erf
// are.
enum class UnaryOp {
#define PALM_UNARY(name, op, where, alpha, beta) op,
#include "kernels/unary/ops.inc"
#undef PALM_UNARY
};

// Whether this library has it.
constexpr bool needs(UnaryOp function) {
  switch (function) {
#define PALM_UNARY(name, op, where, alpha, beta) \
  case UnaryOp::op: return needs_function(#name);
#include "kernels/unary/ops.inc"
#undef PALM_UNARY
  }
  return false;
}

// y[i * y_stride + j] = op(x[i * x_stride + j]), i < rows, j < n; y may be x.
using UnaryFn = void (*)(UnaryOp op, float alpha, float beta, size_t rows, size_t n, const float* x,
                         size_t x_stride, float* y, size_t y_stride);

// The same for the functions that ops.inc has as `library`; the kernels below leave them to this.
void unary_f32_library(UnaryOp op, float alpha, float beta, size_t rows, size_t n, const float* x,
                       size_t x_stride, float* y, size_t y_stride);

#define PALM_KERNEL(need, name)                                                         \
  void name(UnaryOp op, float alpha, float beta, size_t rows, size_t n, const float* x, \
            size_t x_stride, float* y, size_t y_stride);
#include "kernels/unary/kernels.inc"
#undef PALM_KERNEL

UnaryFn find_unary(uint32_t isa);

// The op called `name` in a plan; throws Error if there is none.
UnaryOp unary_by_name(const std::string& name);

// The names that unary_by_name knows.
std::vector<const char*> unary_names();

// alpha and beta where a plan leaves them out, as in ONNX.
struct UnaryDefaults {
  float alpha, beta;
};
UnaryDefaults unary_defaults(UnaryOp op);

}  // namespace palm
