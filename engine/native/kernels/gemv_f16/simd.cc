// A panel's sums stay in registers while its rows come from memory, one after another.
#include "base/simd.h"
#include "kernels/gemv_f16/gemv_f16.h"

namespace palm {
namespace {

constexpr size_t kVectors = GemvF16::kPanel / F32::lanes;
// Numbers that b is fetched ahead.
constexpr size_t kAhead = 4096;

size_t least_of(size_t a, size_t b) { return a < b ? a : b; }

// How many of the columns from `first` on are among so many.
size_t left_of(size_t columns, size_t first) {
  return columns > first ? least_of(columns - first, F32::lanes) : 0;
}

void run_panel(const GemvF16& g, size_t column) {
  const Epilogue& e = g.epilogue;
  const size_t columns = least_of(g.n - column, GemvF16::kPanel);
  alignas(64) float sums[GemvF16::kPanel] = {};
  for (size_t at = 0; at < columns; at += F32::lanes) {
    const size_t n = left_of(columns, at);
    F32 start = e.bias ? F32::load(e.bias + column + at, n) : F32::set(0.f);
    const size_t added = e.residual ? least_of(n, left_of(e.residual_channels, column + at)) : 0;
    if (added) start = start + F32::load(e.residual + column + at, added);
    start.store(sums + at);
  }
  F32 sum[kVectors];
  PALM_UNROLL for (size_t v = 0; v < kVectors; ++v) { sum[v] = F32::load(sums + v * F32::lanes); }
  const uint16_t* b = g.b + column * g.k;
  for (size_t p = 0; p < g.k; ++p, b += GemvF16::kPanel) {
    const F32 x = F32::set(g.a[p]);
    __builtin_prefetch(b + kAhead);
    __builtin_prefetch(b + kAhead + GemvF16::kPanel / 2);
    PALM_UNROLL for (size_t v = 0; v < kVectors; ++v)
      sum[v] = fma(x, F32::load_float16(b + v * F32::lanes), sum[v]);
  }
  PALM_UNROLL for (size_t v = 0; v < kVectors; ++v) { sum[v].store(sums + v * F32::lanes); }
  float* const c = g.c + column;
  const F32 zero = F32::set(0.f), low = F32::set(e.low), high = F32::set(e.high);
  for (size_t at = 0; at < columns; at += F32::lanes) {
    const size_t n = left_of(columns, at);
    const F32 x = F32::load(sums + at);
    const F32 slope = e.slope ? F32::load(e.slope + column + at, n) : zero;
    const F32 y = e.slope ? fma(min(zero, x), slope, max(zero, x)) : min(high, max(low, x));
    y.store(c + at, n);
  }
  if (e.post) e.post(e.post_data, 1, columns, c, g.n);
}

}  // namespace

void PALM_FN(gemv_f16)(const GemvF16& g, size_t begin, size_t end) {
  for (size_t panel = begin; panel < end; ++panel) run_panel(g, panel * GemvF16::kPanel);
}

}  // namespace palm
