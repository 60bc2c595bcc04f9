#include <cmath>

#include "base/check.h"
#include "base/one_step.h"
#include "kernels/binary/binary.h"

namespace {

using namespace palm;

constexpr BinaryOp kOps[] = {BinaryOp::kAdd, BinaryOp::kSub,   BinaryOp::kMul,
                             BinaryOp::kDiv, BinaryOp::kMax,   BinaryOp::kMin,
                             BinaryOp::kPow, BinaryOp::kPrelu, BinaryOp::kMulAdd};

float exact(BinaryOp op, float a, float b, float z) {
  switch (op) {
    case BinaryOp::kAdd: return a + b;
    case BinaryOp::kSub: return a - b;
    case BinaryOp::kMul: return a * b;
    case BinaryOp::kDiv: return a / b;
    case BinaryOp::kMax: return std::isnan(a) || a > b ? a : b;
    case BinaryOp::kMin: return std::isnan(a) || a < b ? a : b;
    case BinaryOp::kPow: return std::pow(a, b);
    case BinaryOp::kPrelu: return a < 0 ? a * b : a;
    case BinaryOp::kMulAdd: return static_cast<float>(static_cast<double>(a) * b + z);
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
        const Vector z = random.floats(rows * n + 1);
        Vector y(rows * n + 1, 77.f);
        const ptrdiff_t a_step = steps & 1, b_step = steps >> 1, row = static_cast<ptrdiff_t>(n);
        const bool clips = n % 2 == 1;
        run({op, rows, n, a.data(), row, a_step, b.data(), n % 3 ? row : 0, b_step, y.data(),
             clips ? -0.5f : -INFINITY, clips ? 0.5f : INFINITY, z.data()});
        PALM_CHECK(y.back() == 77.f, "%s: wrote past n=%zu", name, n);
        for (size_t i = 0; i < rows; ++i) {
          for (size_t j = 0; j < n; ++j) {
            const float u = a[i * n + (a_step ? j : 0)],
                        v = b[(n % 3 ? i * n : 0) + (b_step ? j : 0)];
            float expected = exact(op, u, v, z[i * n + j]);
            if (clips && !std::isnan(expected))
              expected = std::fmin(0.5f, std::fmax(-0.5f, expected));
            const float got = y[i * n + j];
            const double slack = op == BinaryOp::kMulAdd ? 1e-6 : 0;
            PALM_CHECK(is_close(got, expected, slack), "%s: op %d of %g, %g is %g", name,
                       static_cast<int>(op), u, v, got);
          }
        }
      }
    }
  }
}

// Whole steps: narrow rows, one after another or shared out, with and without what is added.
void check_steps(const char* name, uint32_t isa) {
  Random random;
  for (size_t n : {2, 3, 8, 16, 24, 63, 64, 65, 200}) {
    for (size_t rows : {1, 2, 7, 1000}) {
      const size_t count = rows * n;
      const Vector a = random.floats(count), b = random.floats(n), z = random.floats(count);
      for (bool adds : {false, true}) {
        OneStep step("binary");
        step.input({rows, n}, a).input({n}, b).output({rows, n});
        OneStep three("binary");
        three.input({rows, n}, a).input({n}, b).input({rows, n}, z).output({rows, n});
        OneStep& s = adds ? three : step;
        s.attr("op", std::string(adds ? "mul_add" : "mul"));
        s.attr("shape", Ints{static_cast<int64_t>(rows), static_cast<int64_t>(n)});
        s.attr("b_strides", Ints{0, 1});
        for (int threads : {1, 3}) {
          Vector y(count + 1, 77.f);
          s.make(isa, threads).run(y.data(), count);
          for (size_t i = 0; i < count; ++i) {
            const float expected = a[i] * b[i % n] + (adds ? z[i] : 0.f);
            PALM_CHECK(is_close(y[i], expected, 1e-6), "%s: %zu x %zu: y[%zu] is %g, expected %g",
                       name, rows, n, i, y[i], expected);
          }
          PALM_CHECK(y[count] == 77.f, "%s: wrote past the end", name);
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
#define PALM_ISA(isa, need) \
  if (runs_here(need)) check_steps(#isa, need);
#include "base/isas.inc"
#undef PALM_ISA
}
