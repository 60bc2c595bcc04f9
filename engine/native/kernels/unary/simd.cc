#include "base/simd.h"

#include "base/simd/math.h"
#include "kernels/unary/unary.h"

namespace palm {
namespace {

struct Shape {
  size_t rows, n;
  const float* x;
  size_t x_stride;
  float* y;
  size_t y_stride;
};

template <class Function>
void map(const Shape& s, Function f) {
  for (size_t i = 0; i < s.rows; ++i) {
    const float* const x = s.x + i * s.x_stride;
    float* const y = s.y + i * s.y_stride;
    size_t j = 0;
    for (; j + F32::lanes <= s.n; j += F32::lanes) f(F32::load(x + j)).store(y + j);
    if (j < s.n) f(F32::load(x + j, s.n - j)).store(y + j, s.n - j);
  }
}

// x * tanh(log(1 + e)) with e = exp(x): for large x, where e would overflow, that is x.
F32 mish(F32 x) {
  const F32 limit = F32::set(20.f), e = exp(min(limit, x)), n = e * (e + F32::set(2.f));
  return less(limit, x, x, x * (n / (n + F32::set(2.f))));
}

F32 clip(F32 x, float low, float high) { return min(F32::set(high), max(F32::set(low), x)); }

}  // namespace

void PALM_FN(unary_f32)(UnaryOp op, float alpha, float beta, size_t rows, size_t n, const float* x,
                        size_t x_stride, float* y, size_t y_stride) {
  const Shape s{rows, n, x, x_stride, y, y_stride};
  const F32 one = F32::set(1.f), zero = F32::set(0.f), half = F32::set(0.5f);
  const F32 a = F32::set(alpha), b = F32::set(beta);
  switch (op) {
    case UnaryOp::kAbs: return map(s, [](F32 v) { return abs(v); });
    case UnaryOp::kCeil: return map(s, [](F32 v) { return ceil(v); });
    case UnaryOp::kClip: return map(s, [=](F32 v) { return clip(v, alpha, beta); });
    case UnaryOp::kElu: return map(s, [=](F32 v) { return less(v, zero, a * (exp(v) - one), v); });
    case UnaryOp::kErf: return map(s, [](F32 v) { return erf(v); });
    case UnaryOp::kExp: return map(s, [](F32 v) { return exp(v); });
    case UnaryOp::kFloor: return map(s, [](F32 v) { return floor(v); });
    case UnaryOp::kGelu:
      return map(s, [=](F32 v) { return half * v * (one + erf(v * F32::set(0.70710678f))); });
    case UnaryOp::kGeluTanh:
      return map(s, [=](F32 v) {
        const F32 cube = fma(v * v * v, F32::set(0.044715f), v);
        return half * v * (one + tanh(cube * F32::set(0.79788456f)));
      });
    case UnaryOp::kHardSigmoid: return map(s, [=](F32 v) { return clip(fma(a, v, b), 0.f, 1.f); });
    case UnaryOp::kHardSwish:
      return map(s, [=](F32 v) { return v * clip(fma(v, F32::set(1.f / 6.f), half), 0.f, 1.f); });
    case UnaryOp::kLeakyRelu: return map(s, [=](F32 v) { return less(v, zero, a * v, v); });
    case UnaryOp::kMish: return map(s, mish);
    case UnaryOp::kNeg: return map(s, [=](F32 v) { return v * F32::set(-1.f); });
    case UnaryOp::kReciprocal: return map(s, [=](F32 v) { return one / v; });
    case UnaryOp::kRound: return map(s, [](F32 v) { return round(v); });
    case UnaryOp::kSigmoid: return map(s, [](F32 v) { return sigmoid(v); });
    case UnaryOp::kSqrt: return map(s, [](F32 v) { return sqrt(v); });
    case UnaryOp::kSwish: return map(s, [=](F32 v) { return v * sigmoid(a * v); });
    case UnaryOp::kTanh: return map(s, [](F32 v) { return tanh(v); });
// Those in unary.cc; without a default the compiler says which function has no case.
#define PALM_UNARY(name, op, where, alpha, beta) PALM_CASE_##where(op)
#define PALM_CASE_vectors(op)
#define PALM_CASE_library(op) case UnaryOp::op:
#include "kernels/unary/ops.inc"
#undef PALM_CASE_library
#undef PALM_CASE_vectors
#undef PALM_UNARY
      return unary_f32_library(op, alpha, beta, rows, n, x, x_stride, y, y_stride);
  }
}

}  // namespace palm
