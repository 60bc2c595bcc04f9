#include "base/bench.h"

#include "base/one_step.h"

int main() {
  using namespace palm;
  constexpr struct {
    const char* name;
    size_t size, in, out, kernel;
    int64_t pad;
  } kCases[] = {{"2x2 128x128x16 -> 1", 128, 16, 1, 2, 0},
                {"2x2 32x32x64 -> 32", 32, 64, 32, 2, 0},
                {"4x4 32x32x64 -> 32", 32, 64, 32, 4, 1}};
  Random random;
  bench_header("GFLOP/s, stride 2");
  for (const auto& c : kCases) {
    const size_t taps = c.kernel * c.kernel;
    const Vector x = random.floats(c.size * c.size * c.in);
    const Vector w = random.floats(c.in * taps * c.out);
    Vector y(4 * c.size * c.size * c.out);
    OneStep step("conv_transpose");
    step.input({1, c.size, c.size, c.in}, x)
        .input({c.in, c.kernel, c.kernel, c.out}, w, true)
        .output({1, 2 * c.size, 2 * c.size, c.out})
        .attr("strides", Ints{2, 2})
        .attr("pads", Ints{c.pad, c.pad, c.pad, c.pad});
    bench(c.name, 2.0 * static_cast<double>(x.size() * taps * c.out), [&](uint32_t isa) {
      step.make(isa, 1);
      return [&] { step.run(y.data(), y.size()); };
    });
  }
}
