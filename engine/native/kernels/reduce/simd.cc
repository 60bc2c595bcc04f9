#include "base/simd.h"

#include "kernels/reduce/reduce.h"

namespace palm {
namespace {

// Four partial results, so that one addition need not wait for the other; always the same four, so
// that the result does not depend on how the columns are split.
template <class Function, class Finish>
void columns(size_t rows, size_t n, const float* x, size_t stride, float* y, float start,
             Function f, Finish finish) {
  for (size_t j = 0; j < n; j += F32::lanes) {
    const size_t left = n - j < F32::lanes ? n - j : F32::lanes;
    F32 part[4] = {F32::set(start), F32::set(start), F32::set(start), F32::set(start)};
    size_t i = 0;
    for (; i + 4 <= rows; i += 4) {
      PALM_UNROLL for (size_t k = 0; k < 4; ++k) {
        part[k] = f(part[k], F32::load(x + (i + k) * stride + j, left));
      }
    }
    for (; i < rows; ++i) part[i % 4] = f(part[i % 4], F32::load(x + i * stride + j, left));
    finish(part).store(y + j, left);
  }
}

F32 max_or_nan(F32 a, F32 b) { return if_nan(a, a, max(a, b)); }
F32 min_or_nan(F32 a, F32 b) { return if_nan(a, a, min(a, b)); }

}  // namespace

void PALM_FN(reduce_f32)(ReduceOp op, size_t rows, size_t n, const float* x, size_t stride,
                         float* y) {
  constexpr float kInfinity = __builtin_inff();
  const auto sum = [](const F32* p) { return (p[0] + p[1]) + (p[2] + p[3]); };
  const auto add = [](F32 a, F32 b) { return a + b; };
  switch (op) {
    case ReduceOp::kSum: return columns(rows, n, x, stride, y, 0.f, add, sum);
    case ReduceOp::kMean: {
      const F32 by = F32::set(static_cast<float>(rows));
      return columns(rows, n, x, stride, y, 0.f, add, [=](const F32* p) { return sum(p) / by; });
    }
    case ReduceOp::kL2:
      return columns(
          rows, n, x, stride, y, 0.f, [](F32 a, F32 b) { return fma(b, b, a); },
          [=](const F32* p) { return sqrt(sum(p)); });
    case ReduceOp::kMax:
      return columns(rows, n, x, stride, y, -kInfinity, max_or_nan, [](const F32* p) {
        return max_or_nan(max_or_nan(p[0], p[1]), max_or_nan(p[2], p[3]));
      });
    case ReduceOp::kMin:
      return columns(rows, n, x, stride, y, kInfinity, min_or_nan, [](const F32* p) {
        return min_or_nan(min_or_nan(p[0], p[1]), min_or_nan(p[2], p[3]));
      });
    case ReduceOp::kProd:
      return columns(
          rows, n, x, stride, y, 1.f, [](F32 a, F32 b) { return a * b; },
          [](const F32* p) { return (p[0] * p[1]) * (p[2] * p[3]); });
  }
}

}  // namespace palm
