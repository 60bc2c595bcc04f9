#include "base/bench.h"

#include "kernels/quantize/quantize.h"

int main() {
  using namespace palm;
  constexpr size_t kCount = 8192;
  Random random;
  const Vector x = random.floats(kCount, 10.f);
  Vector y(kCount);
  bench_header("GB/s, read and written");
  bench("round trip", 8.0 * kCount, [&](uint32_t isa) {
    const QuantizeFn run = find_quantize(isa);
    return [=, &x, &y] { run(kCount, x.data(), 0.1f, 3.f, -128.f, 127.f, y.data()); };
  });
}
