#include "base/bench.h"

#include "kernels/gemm_int8/gemm_int8.h"

int main() {
  using namespace palm;
  constexpr struct {
    size_t m, k, n;
  } kCases[] = {{4096, 24, 24},   {1024, 32, 36},   {12544, 32, 64}, {3136, 128, 128},
                {576, 64, 64},    {196, 256, 256},  {196, 512, 512}, {49, 512, 1024},
                {49, 1024, 1024}, {12544, 16, 96},  {3136, 96, 24},  {3136, 24, 144},
                {784, 192, 32},   {196, 384, 96},   {49, 960, 160},  {49, 160, 960},
                {49, 4608, 512},  {196, 2304, 256}, {1, 1280, 1000}};
  std::printf("%-34s", "GOP/s");
#define PALM_KERNEL(need, name) \
  if (runs_here(need)) std::printf("%24s", #name);
#include "kernels/gemm_int8/kernels.inc"
#undef PALM_KERNEL
  std::printf("\n");
  for (const auto& c : kCases) {
    std::vector<uint8_t, AlignedAllocator<uint8_t>> a(c.m * c.k + 3, 100), y(c.m * c.n);
    std::vector<char, AlignedAllocator<char>> packed;
    const std::vector<int8_t> b(c.k * c.n, 3);
    const std::vector<int32_t> bias(c.n + GemmInt8::kSlack);
    const std::vector<float> scale(c.n + GemmInt8::kSlack, 1e-3f);
    const uint8_t* const segment = a.data();
    char text[64];
    std::snprintf(text, sizeof text, "%zu x %zu x %zu", c.m, c.k, c.n);
    std::printf("%-34s", text);
#define PALM_KERNEL(need, name)                                                           \
  if (runs_here(need)) {                                                                  \
    const GemmInt8Kernel kernel = find_gemm_int8(need);                                   \
    packed.resize(kernel.pack(1, c.k, c.n, nullptr, c.k, nullptr));                       \
    kernel.pack(1, c.k, c.n, b.data(), c.k, packed.data());                               \
    GemmInt8 g{c.m,                                                                       \
               c.n,                                                                       \
               c.k,                                                                       \
               1,                                                                         \
               &segment,                                                                  \
               c.k,                                                                       \
               packed.data(),                                                             \
               {y.data(), false},                                                         \
               c.n,                                                                       \
               0,                                                                         \
               kernel.count_panels(c.n),                                                  \
               {}};                                                                       \
    g.epilogue.bias = bias.data();                                                        \
    g.epilogue.scale = scale.data();                                                      \
    g.epilogue.is_plain = true;                                                           \
    const double work = 2.0 * static_cast<double>(c.m * c.k * c.n);                       \
    std::printf("%24.1f", work * 1e-9 / best_seconds([&] { kernel.run(g); }, 0.001, 12)); \
  }
#include "kernels/gemm_int8/kernels.inc"
#undef PALM_KERNEL
    std::printf("\n");
  }
}
