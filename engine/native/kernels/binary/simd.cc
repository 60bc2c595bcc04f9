#include "base/simd.h"

#include "base/needs.h"
#include "kernels/binary/binary.h"

namespace palm {
namespace {

// A row of `step` 1, or of step 0: one value for all.
struct Row {
  const float* p;
  bool one;
  F32 value;
  Row(const float* row, ptrdiff_t step) : p(row), one(step == 0), value(F32::set(*row)) {}
};

// With kThree f has a third operand, from z. Where size counts it is looked at each time which of a
// and b are one value.
template <bool kOneA, bool kOneB, bool kThree, class Function>
void row(const Row& a, const Row& b, const float* z, size_t n, float* y, F32 low, F32 high,
         Function f) {
  const auto part = [&](size_t j, auto... left) {
    const bool one_a = kIsSmall ? a.one : kOneA, one_b = kIsSmall ? b.one : kOneB;
    const F32 u = one_a ? a.value : F32::load(a.p + j, left...);
    const F32 v = one_b ? b.value : F32::load(b.p + j, left...);
    if constexpr (kThree) {
      min(high, max(low, f(u, v, F32::load(z + j, left...)))).store(y + j, left...);
    } else {
      min(high, max(low, f(u, v))).store(y + j, left...);
    }
  };
  size_t j = 0;
  for (; j + F32::lanes <= n; j += F32::lanes) part(j);
  if (const size_t left = n - j) part(j, left);
}

template <bool kThree = false, class Function>
void map(const Binary& m, Function f) {
  if (m.n == 0) return;
  const F32 low = F32::set(m.low), high = F32::set(m.high);
  for (size_t i = 0; i < m.rows; ++i) {
    const ptrdiff_t at = static_cast<ptrdiff_t>(i);
    const Row a(m.a + at * m.a_row, m.a_step), b(m.b + at * m.b_row, m.b_step);
    const float* const z = kThree ? m.z + i * m.n : nullptr;
    float* const y = m.y + i * m.n;
    if (kIsSmall) row<false, false, kThree>(a, b, z, m.n, y, low, high, f);
    else if (a.one && b.one) row<true, true, kThree>(a, b, z, m.n, y, low, high, f);
    else if (a.one) row<true, false, kThree>(a, b, z, m.n, y, low, high, f);
    else if (b.one) row<false, true, kThree>(a, b, z, m.n, y, low, high, f);
    else row<false, false, kThree>(a, b, z, m.n, y, low, high, f);
  }
}

}  // namespace

void PALM_FN(binary_f32)(const Binary& m) {
  switch (m.op) {
    case BinaryOp::kAdd: return map(m, [](F32 a, F32 b) { return a + b; });
    case BinaryOp::kSub: return map(m, [](F32 a, F32 b) { return a - b; });
    case BinaryOp::kMul: return map(m, [](F32 a, F32 b) { return a * b; });
    case BinaryOp::kMulAdd: return map<true>(m, [](F32 a, F32 b, F32 z) { return fma(a, b, z); });
    case BinaryOp::kDiv: return map(m, [](F32 a, F32 b) { return a / b; });
    case BinaryOp::kMax: return map(m, [](F32 a, F32 b) { return if_nan(a, a, max(a, b)); });
    case BinaryOp::kMin: return map(m, [](F32 a, F32 b) { return if_nan(a, a, min(a, b)); });
    case BinaryOp::kPrelu:
      return map(m, [](F32 a, F32 b) { return less(a, F32::set(0.f), a * b, a); });
    case BinaryOp::kPow: return binary_f32_library(m);
  }
}

}  // namespace palm
