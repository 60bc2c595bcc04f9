#include "base/bench.h"

#include "kernels/reduce/reduce.h"

int main() {
  using namespace palm;
  constexpr struct {
    const char* name;
    size_t rows, n;
  } kCases[] = {{"mean of 49 x 576", 49, 576}, {"mean of 4096 x 16", 4096, 16}};
  Random random;
  bench_header("GB/s, read");
  for (const auto& c : kCases) {
    const Vector x = random.floats(c.rows * c.n);
    Vector y(c.n);
    bench(c.name, 4.0 * static_cast<double>(c.rows * c.n), [&](uint32_t isa) {
      const ReduceFn run = find_reduce(isa);
      return [=, &x, &y] { run(ReduceOp::kMean, c.rows, c.n, x.data(), c.n, y.data()); };
    });
  }
}
