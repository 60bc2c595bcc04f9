#include "kernels/gemv_f16/gemv_f16.h"

#include <algorithm>

#include "base/half.h"

namespace palm {

GemvF16Fn find_gemv_f16(uint32_t isa) {
#define PALM_KERNEL(need, name) \
  if ((isa & (need)) == (need)) return &name;
#include "kernels/gemv_f16/kernels.inc"
#undef PALM_KERNEL
  (void)isa;
  return nullptr;
}

Arena pack_gemv_f16(size_t k, size_t n, const float* source, size_t row_stride,
                    size_t column_stride) {
  constexpr size_t kPanel = GemvF16::kPanel, kLeast = 64 << 10, kSamples = 64;
  const size_t panels = (n + kPanel - 1) / kPanel;
  if (k * n < kLeast || panels * kPanel > n + n / 2) return Arena();
  // Most that are not all of float16 begin otherwise.
  uint16_t samples[kSamples];
  if (!narrow_to_halves(source, kSamples, samples)) return Arena();
  Arena packed(panels * kPanel * k * sizeof(uint16_t));
  auto* to = reinterpret_cast<uint16_t*>(packed.data());
  float row[kPanel] = {};
  for (size_t first = 0; first < n; first += kPanel) {
    const size_t columns = std::min(kPanel, n - first);
    std::fill(row + columns, row + kPanel, 0.f);
    for (size_t p = 0; p < k; ++p, to += kPanel) {
      const float* const from = source + p * row_stride + first * column_stride;
      for (size_t j = 0; j < columns; ++j) row[j] = from[j * column_stride];
      if (!narrow_to_halves(row, kPanel, to)) return Arena();
    }
  }
  return packed;
}

void run_gemv_f16(GemvF16Fn kernel, const GemvF16& g, Pool& pool) {
  const size_t panels = (g.n + GemvF16::kPanel - 1) / GemvF16::kPanel;
  pool.parallel(panels, grain_of(g.k * GemvF16::kPanel * kWorkOfTouching / 2),
                [&](size_t begin, size_t end, int) { kernel(g, begin, end); });
}

}  // namespace palm
