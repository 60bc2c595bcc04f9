#include "base/bench.h"

#include "kernels/gemm/gemm.h"

int main() {
  using namespace palm;
  constexpr struct {
    size_t m, k, n;
  } kCases[] = {{4096, 24, 24}, {1024, 32, 36}, {576, 64, 64}, {196, 256, 256}, {1, 1280, 1000}};
  Random random;
  bench_header("GFLOP/s");
  for (const auto& c : kCases) {
    const Vector a = random.floats(c.m * c.k), b = random.floats(c.k * c.n);
    const float* const segment = a.data();
    Vector y(c.m * c.n), packed;
    char name[64];
    std::snprintf(name, sizeof name, "%zu x %zu x %zu", c.m, c.k, c.n);
    bench(name, 2.0 * static_cast<double>(c.m * c.k * c.n), [&](uint32_t isa) {
      const GemmKernel kernel = find_gemm(isa);
      packed.resize(kernel.pack(c.k, c.n, nullptr, c.n, 1, nullptr));
      kernel.pack(c.k, c.n, b.data(), c.n, 1, packed.data());
      const Gemm g{c.m,
                   c.n,
                   c.k,
                   1,
                   &segment,
                   c.k,
                   packed.data(),
                   y.data(),
                   c.n,
                   0,
                   kernel.count_panels(c.n),
                   {}};
      return [=] { kernel.run(g); };
    });
  }
}
