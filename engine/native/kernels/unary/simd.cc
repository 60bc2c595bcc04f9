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
// Where this library has a function.
#define PALM_FUNCTION(op, ...)                             \
  case UnaryOp::op:                                        \
    if constexpr (needs(UnaryOp::op)) map(s, __VA_ARGS__); \
    return;
  switch (op) {
    PALM_FUNCTION(kAbs, [](F32 v) { return abs(v); })
    PALM_FUNCTION(kCeil, [](F32 v) { return ceil(v); })
    PALM_FUNCTION(kClip, [=](F32 v) { return clip(v, alpha, beta); })
    PALM_FUNCTION(kElu, [=](F32 v) { return less(v, zero, a * (exp(v) - one), v); })
    PALM_FUNCTION(kErf, [](F32 v) { return erf(v); })
    PALM_FUNCTION(kExp, [](F32 v) { return exp(v); })
    PALM_FUNCTION(kFloor, [](F32 v) { return floor(v); })
    PALM_FUNCTION(kGelu, [=](F32 v) { return half * v * (one + erf(v * F32::set(0.70710678f))); })
    PALM_FUNCTION(kGeluTanh, [=](F32 v) {
        const F32 cube = fma(v * v * v, F32::set(0.044715f), v);
        return half * v * (one + tanh(cube * F32::set(0.79788456f)));
      })
    PALM_FUNCTION(kHardSigmoid, [=](F32 v) { return clip(fma(a, v, b), 0.f, 1.f); })
    PALM_FUNCTION(kHardSwish, [=](F32 v) {
      return v * clip(fma(v, F32::set(1.f / 6.f), half), 0.f, 1.f);
    })
    PALM_FUNCTION(kLeakyRelu, [=](F32 v) { return less(v, zero, a * v, v); })
    PALM_FUNCTION(kMish, mish)
    PALM_FUNCTION(kNeg, [=](F32 v) { return v * F32::set(-1.f); })
    PALM_FUNCTION(kReciprocal, [=](F32 v) { return one / v; })
    PALM_FUNCTION(kRound, [](F32 v) { return round(v); })
    PALM_FUNCTION(kSigmoid, [](F32 v) { return sigmoid(v); })
    PALM_FUNCTION(kSqrt, [](F32 v) { return sqrt(v); })
    PALM_FUNCTION(kSwish, [=](F32 v) { return v * sigmoid(a * v); })
    PALM_FUNCTION(kTanh, [](F32 v) { return tanh(v); })
#undef PALM_FUNCTION
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
