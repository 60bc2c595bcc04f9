#include <cmath>
#include <cstdio>

#include "base/check.h"
#include "kernels/gemv_f16/gemv_f16.h"

int main() {
  using namespace palm;
  Random random;
  for (const auto& [k, n] : {std::pair<size_t, size_t>{288, 1404}, {1280, 1000}, {512, 512}}) {
    const Vector a = random.floats(k);
    Vector b = random.floats(k * n), y(n);
    for (float& x : b) x = std::round(x * 1024) / 1024;
    const Arena packed = pack_gemv_f16(k, n, b.data(), n, 1);
    const GemvF16 g{n, k, a.data(), reinterpret_cast<const uint16_t*>(packed.data()), y.data(), {}};
    const size_t panels = (n + GemvF16::kPanel - 1) / GemvF16::kPanel;
#define PALM_KERNEL(need, name)                                                        \
  if (runs_here(need)) {                                                               \
    const double seconds = best_seconds([&] { name(g, 0, panels); });                  \
    std::printf("%4zu x %4zu %-18s %6.1f GB/s\n", k, n, #name,                         \
                static_cast<double>(packed.bytes().size) * 1e-9 / seconds);            \
  }
#include "kernels/gemv_f16/kernels.inc"
#undef PALM_KERNEL
  }
}
