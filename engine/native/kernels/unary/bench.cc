#include "base/bench.h"

#include "kernels/unary/unary.h"

int main() {
  using namespace palm;
  constexpr const char* kNames[] = {"relu", "hard_swish", "sigmoid", "tanh", "exp", "erf", "log"};
  constexpr size_t kCount = 8192;
  Random random;
  const Vector x = random.floats(kCount, 4.f);
  Vector y(kCount);
  bench_header("GB/s, read and written");
  for (const char* name : kNames) {
    bench(name, 8.0 * kCount, [&](uint32_t isa) {
      const UnaryFn run = find_unary(isa);
      return
          [=, &x, &y] { run(unary_by_name(name), 0.f, 6.f, 1, kCount, x.data(), 0, y.data(), 0); };
    });
  }
}
