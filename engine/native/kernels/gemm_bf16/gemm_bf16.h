#pragma once
#include "base/cpu.h"
#include "kernels/epilogue_bf16.h"
#include "kernels/gemm/gemm.h"

namespace palm {

// c[i][j] = epilogue(sum over s < segments, p < k of a[s][i * lda + p] * b[s * k + p][j]),
// i < m, j in the panels [first_panel, last_panel) of n columns; products of Bf16 summed in
// float. k is even; k, segments > 0. Sums run in the order of s, p, two p at a time, whatever m is
// and however the panels are split. Neither a nor the residual may overlap c.
struct GemmBf16 {
  size_t m, n, k;
  size_t segments;
  const Bf16* const* a;
  size_t lda;
  const Bf16* b;  // packed
  EitherOut c;
  size_t ldc;
  size_t first_panel, last_panel;
  EpilogueBf16 epilogue;
};

struct GemmBf16Kernel {
  void (*run)(const GemmBf16& gemm);
  // Packs the nearest of b[p][j] = source[p * row_stride + j * column_stride] of k rows, an even
  // number, and n columns into panels. Returns the numbers that it takes; `packed` may be null.
  size_t (*pack)(size_t k, size_t n, const float* source, size_t row_stride, size_t column_stride,
                 Bf16* packed);
  // How many panels n columns make.
  CountGemmFn count_panels;
  PanelGemmFn first_panel;
};

#define PALM_KERNEL(need, name)                                                  \
  void name(const GemmBf16& gemm);                                               \
  size_t pack_##name(size_t k, size_t n, const float* source, size_t row_stride, \
                     size_t column_stride, Bf16* packed);                        \
  size_t count_##name(size_t n);                                                 \
  GemmPanel panel_##name(size_t n);
#include "kernels/gemm_bf16/kernels.inc"
#undef PALM_KERNEL

// Pairs of numbers that tiles multiply at once: as many as leave no rest of a row of a.
static inline size_t tile_words(size_t pairs) {
  constexpr size_t kMost = 16;
  size_t words = pairs < kMost ? pairs : kMost;
  while (pairs % words) --words;
  return words;
}

// Throws Error if the set has none.
GemmBf16Kernel find_gemm_bf16(uint32_t isa);

// All of `gemm`, of one segment and every panel, its tiles shared out to the pool.
void run_gemm(const GemmBf16Kernel& kernel, const GemmBf16& gemm, Pool& pool);

}  // namespace palm
