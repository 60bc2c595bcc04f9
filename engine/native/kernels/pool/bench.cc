#include "base/bench.h"

#include "base/one_step.h"

int main() {
  using namespace palm;
  Random random;
  bench_header("GB/s, read, 2x2 of 80x80 by");
  for (size_t channels : {16, 24, 128}) {
    const Vector x = random.floats(80 * 80 * channels);
    Vector y(40 * 40 * channels);
    OneStep step("pool");
    step.input({1, 80, 80, channels}, x)
        .output({1, 40, 40, channels})
        .attr("mode", std::string("max"))
        .attr("kernel", Ints{2, 2})
        .attr("strides", Ints{2, 2});
    bench(std::to_string(channels).c_str(), 4.0 * static_cast<double>(x.size()), [&](uint32_t isa) {
      step.make(isa, 1);
      return [&] { step.run(y.data(), y.size()); };
    });
  }
}
