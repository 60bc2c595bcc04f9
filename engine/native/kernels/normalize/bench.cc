#include "base/bench.h"

#include "kernels/normalize/normalize.h"

int main() {
  using namespace palm;
  constexpr struct {
    const char* name;
    size_t rows, groups, n;
  } kCases[] = {{"a row of 768", 1, 1, 768}, {"32 channels of 64 x 64", 4096, 32, 1}};
  Random random;
  bench_header("GB/s, read and written");
  for (const auto& c : kCases) {
    const size_t count = c.rows * c.groups * c.n;
    const Vector x = random.floats(count), scale = random.floats(c.groups * c.n);
    Vector y(count), scratch(2 * c.groups * c.n);
    bench(c.name, 8.0 * static_cast<double>(count), [&](uint32_t isa) {
      const NormalizeFn run = find_normalize(isa);
      return [&, run] {
        run({c.rows, c.groups, c.n, c.groups * c.n, x.data(), scale.data(), scale.data(), 1e-5f,
             true, y.data(), scratch.data()});
      };
    });
  }
}
