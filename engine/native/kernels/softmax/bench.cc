#include "base/bench.h"

#include "kernels/softmax/softmax.h"

int main() {
  using namespace palm;
  constexpr struct {
    const char* name;
    size_t axis, inner;
  } kCases[] = {{"1000 side by side", 1000, 1}, {"2 of 4000 apart", 2, 4000}};
  Random random;
  bench_header("GB/s, read and written");
  for (const auto& c : kCases) {
    const size_t count = c.axis * c.inner;
    const Vector x = random.floats(count);
    Vector y(count);
    bench(c.name, 8.0 * static_cast<double>(count), [&](uint32_t isa) {
      const SoftmaxFn run = find_softmax(isa);
      return [=, &x, &y] { run(false, c.axis, c.inner, x.data(), y.data()); };
    });
  }
}
