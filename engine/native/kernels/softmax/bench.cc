#include "base/bench.h"

#include "kernels/softmax/softmax.h"

int main() {
  using namespace palm;
  constexpr struct {
    const char* name;
    size_t rows, axis, inner;
  } kCases[] = {{"1000 side by side", 1, 1000, 1},
                {"197 side by side", 64, 197, 1},
                {"21 side by side", 1000, 21, 1},
                {"2 side by side", 4000, 2, 1},
                {"2 of 4000 apart", 1, 2, 4000}};
  Random random;
  bench_header("GB/s, read and written");
  for (const auto& c : kCases) {
    const size_t count = c.rows * c.axis * c.inner;
    const Vector x = random.floats(count);
    Vector y(count);
    bench(c.name, 8.0 * static_cast<double>(count), [&](uint32_t isa) {
      const SoftmaxFn run = find_softmax(isa);
      return [=, &x, &y] { run(false, c.rows, c.axis, c.inner, x.data(), y.data()); };
    });
  }
}
