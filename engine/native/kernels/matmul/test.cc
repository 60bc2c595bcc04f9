#include <cmath>

#include "base/check.h"
#include "base/one_step.h"

namespace {

using namespace palm;

void check(const char* isa_name, uint32_t isa) {
  Random random;
  for (int trial = 0; trial < 270; ++trial) {
    // The last ones are of one row by many numbers of float16.
    const bool halves = trial >= 240;
    const size_t m = trial % 3 && !halves ? random.between(1, 70) : 1;
    const size_t k = random.between(1, 70) + (halves ? 1000 : 0);
    const size_t n = random.between(1, 70) + (halves ? 60 : 0);
    const bool transposed = trial % 2, constant = trial / 2 % 2, shared = trial / 4 % 2;
    const size_t batch = trial % 5 == 0 ? 3 : 1, b_count = shared ? 1 : batch;
    const Vector a = random.floats(batch * m * k, halves ? 0.1f : 1.f);
    Vector b = random.floats(b_count * k * n);
    if (halves)
      for (float& x : b) x = std::round(x * 1024) / 1024;
    const Vector bias = random.floats(n);
    OneStep step("matmul");
    step.input({batch, m, k}, a).input({b_count, k * n}, b, constant).input({n}, bias, true);
    step.output({batch, m, n});
    step.attr("m", static_cast<int64_t>(m)).attr("k", static_cast<int64_t>(k));
    step.attr("n", static_cast<int64_t>(n)).attr("trans_b", int64_t{transposed});
    step.attr("batch", Ints{static_cast<int64_t>(batch)});
    step.attr("b_strides", Ints{shared ? 0 : static_cast<int64_t>(k * n)});
    const size_t count = batch * m * n;
    Vector y(count + 1, 77.f), y3(count + 1, 77.f);
    step.make(isa, 1).run(y.data(), count);
    step.make(isa, 3).run(y3.data(), count);
    for (size_t i = 0; i < count; ++i) {
      const size_t column = i % n, row = i / n, start = shared ? 0 : row / m * k * n;
      double sum = bias[column];
      for (size_t p = 0; p < k; ++p) {
        const size_t at = start + (transposed ? column * k + p : p * n + column);
        sum += static_cast<double>(a[row * k + p]) * b[at];
      }
      PALM_CHECK(is_close(y[i], sum, 1e-5), "%s: %zu x %zu x %zu: y[%zu] is %g, expected %g",
                 isa_name, m, k, n, i, y[i], sum);
    }
    PALM_CHECK(y[count] == 77.f, "%s: wrote past the end", isa_name);
    PALM_CHECK(y == y3, "%s: 3 threads give another result", isa_name);
  }
}

}  // namespace

int main() {
#define PALM_ISA(isa, need)               \
  if (runs_here(need)) check(#isa, need); \
  else std::printf("skip %s\n", #isa);
#include "base/isas.inc"
#undef PALM_ISA
}
