#include "base/bench.h"

#include "base/one_step.h"

int main() {
  using namespace palm;
  constexpr struct {
    int64_t m, k, n;
  } kCases[] = {{1, 576, 1001}, {64, 64, 64}, {196, 256, 256}};
  Random random;
  bench_header("GFLOP/s");
  for (bool constant : {true, false}) {
    for (const auto& c : kCases) {
      const auto m = static_cast<size_t>(c.m), k = static_cast<size_t>(c.k);
      const auto n = static_cast<size_t>(c.n);
      const Vector a = random.floats(m * k), b = random.floats(k * n);
      Vector y(m * n);
      OneStep step("matmul");
      step.input({m, k}, a).input({k, n}, b, constant).output({m, n});
      step.attr("m", c.m).attr("k", c.k).attr("n", c.n);
      char name[64];
      std::snprintf(name, sizeof name, "%zu x %zu x %zu%s", m, k, n, constant ? ", packed" : "");
      bench(name, 2.0 * static_cast<double>(m * k * n), [&](uint32_t isa) {
        step.make(isa, 1);
        return [&] { step.run(y.data(), y.size()); };
      });
    }
  }
}
