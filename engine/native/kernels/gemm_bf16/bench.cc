#include "base/bench.h"

#include "kernels/gemm_bf16/gemm_bf16.h"

int main() {
  using namespace palm;
  constexpr struct {
    size_t m, k, n;
  } kCases[] = {{4096, 24, 24},   {1024, 32, 36},  {12544, 32, 64}, {3136, 128, 128},
                {576, 64, 64},    {196, 256, 256}, {196, 512, 512}, {49, 512, 1024},
                {49, 1024, 1024}, {12544, 16, 96}, {3136, 96, 24},  {3136, 24, 144},
                {784, 192, 32},   {49, 960, 160},  {49, 160, 960},  {1, 1280, 1000}};
  Random random;
  std::printf("%-34s%9s\n", "GFLOP/s", "bf16");
  for (const auto& c : kCases) {
    std::vector<Bf16, AlignedAllocator<Bf16>> a(c.m * c.k), y(c.m * c.n), packed;
    for (Bf16& x : a) x = narrow(random.next());
    const Vector b = random.floats(c.k * c.n);
    const Bf16* const segment = a.data();
    char name[64];
    std::snprintf(name, sizeof name, "%zu x %zu x %zu", c.m, c.k, c.n);
    std::printf("%-34s", name);
#define PALM_KERNEL(need, name)                                               \
  if (runs_here(need)) {                                                      \
    const GemmBf16Kernel kernel = find_gemm_bf16(need);                       \
    packed.resize(kernel.pack(c.k, c.n, nullptr, c.n, 1, nullptr));           \
    kernel.pack(c.k, c.n, b.data(), c.n, 1, packed.data());                   \
    GemmBf16 g{c.m,                                                           \
               c.n,                                                           \
               c.k,                                                           \
               1,                                                             \
               &segment,                                                      \
               c.k,                                                           \
               packed.data(),                                                 \
               {y.data(), true},                                              \
               c.n,                                                           \
               0,                                                             \
               kernel.count_panels(c.n),                                      \
               {}};                                                           \
    g.epilogue.plain.low = 0;                                                 \
    const double work = 2.0 * static_cast<double>(c.m * c.k * c.n);           \
    std::printf("%9.1f", work * 1e-9 / best_seconds([&] { kernel.run(g); })); \
  }
#include "kernels/gemm_bf16/kernels.inc"
#undef PALM_KERNEL
    std::printf("\n");
  }
}
