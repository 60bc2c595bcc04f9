#include <cmath>

#include "base/check.h"
#include "kernels/binary/binary.h"

namespace {

using namespace palm;

constexpr BinaryOp kOps[] = {BinaryOp::kAdd, BinaryOp::kSub, BinaryOp::kMul, BinaryOp::kDiv,
                             BinaryOp::kMax, BinaryOp::kMin, BinaryOp::kPow, BinaryOp::kPrelu};

float exact(BinaryOp op, float a, float b) {
  switch (op) {
    case BinaryOp::kAdd: return a + b;
    case BinaryOp::kSub: return a - b;
    case BinaryOp::kMul: return a * b;
    case BinaryOp::kDiv: return a / b;
    case BinaryOp::kMax: return std::isnan(a) || a > b ? a : b;
    case BinaryOp::kMin: return std::isnan(a) || a < b ? a : b;
    case BinaryOp::kPow: return std::pow(a, b);
    case BinaryOp::kPrelu: return a < 0 ? a * b : a;
  }
  return 0;
}

void check(const char* name, BinaryFn run) {
  Random random;
  for (BinaryOp op : kOps) {
    for (size_t n = 0; n <= 70; ++n) {
      for (int steps = 0; steps < 4; ++steps) {
        const size_t rows = 3;
        Vector a = random.floats(rows * n + 1), b = random.floats(rows * n + 1);
        if (n > 4) a[1] = NAN, b[2] = NAN, a[3] = INFINITY;
        Vector y(rows * n + 1, 77.f);
        const ptrdiff_t a_step = steps & 1, b_step = steps >> 1, row = static_cast<ptrdiff_t>(n);
        const bool clips = n % 2 == 1;
        run({op, rows, n, a.data(), row, a_step, b.data(), n % 3 ? row : 0, b_step, y.data(),
             clips ? -0.5f : -INFINITY, clips ? 0.5f : INFINITY});
        PALM_CHECK(y.back() == 77.f, "%s: wrote past n=%zu", name, n);
        for (size_t i = 0; i < rows; ++i) {
          for (size_t j = 0; j < n; ++j) {
            const float u = a[i * n + (a_step ? j : 0)],
                        v = b[(n % 3 ? i * n : 0) + (b_step ? j : 0)];
            float expected = exact(op, u, v);
            if (clips && !std::isnan(expected))
              expected = std::fmin(0.5f, std::fmax(-0.5f, expected));
            const float got = y[i * n + j];
            PALM_CHECK(got == expected || (std::isnan(got) && std::isnan(expected)),
                       "%s: op %d of %g, %g is %g", name, static_cast<int>(op), u, v, got);
          }
        }
      }
    }
  }
}

}  // namespace

int main() {
#define PALM_KERNEL(need, name)            \
  if (runs_here(need)) check(#name, name); \
  else std::printf("skip %s\n", #name);
#include "kernels/binary/kernels.inc"
#undef PALM_KERNEL
}
