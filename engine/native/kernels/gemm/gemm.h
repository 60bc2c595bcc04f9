#pragma once
#include <cstddef>

#include "base/arena.h"
#include "base/cpu.h"
#include "base/threads.h"
#include "kernels/epilogue.h"

namespace palm {

// c[i][j] = epilogue(sum over s < segments, p < k of a[s][i * lda + p] * b[s * k + p][j]),
// i < m, j in the panels [first_panel, last_panel) of n columns. k, segments > 0.
// Sums run in the order of s, p whatever m is and however the panels are split.
struct Gemm {
  size_t m, n, k;
  size_t segments;
  const float* const* a;
  size_t lda;
  const float* b;  // packed
  float* c;
  size_t ldc;
  size_t first_panel, last_panel;
  Epilogue epilogue;
  // So many floats after those at hand, b is asked for from memory; only in panels of one vector.
  size_t ahead = 0;
  // If not 0, b is not packed: rows of so many floats, n being whole vectors of 8.
  size_t ldb = 0;
  // What is wanted after this, and asked for from memory meanwhile, as far as there is room for it.
  Bytes next{};
};

using GemmFn = void (*)(const Gemm& gemm);

// Packs b[p][j] = source[p * row_stride + j * column_stride] of k rows, n columns into panels.
// Returns the floats that it takes; `packed` may be null.
using PackGemmFn = size_t (*)(size_t k, size_t n, const float* source, size_t row_stride,
                              size_t column_stride, float* packed);

// How many panels n columns make.
using CountGemmFn = size_t (*)(size_t n);

// The first panel of n columns: its columns, with padding its width, and the rows of its tiles.
struct GemmPanel {
  size_t columns, width, tile_rows;
};
using PanelGemmFn = GemmPanel (*)(size_t n);

#define PALM_KERNEL(need, name)                                                  \
  void name(const Gemm& gemm);                                                   \
  size_t pack_##name(size_t k, size_t n, const float* source, size_t row_stride, \
                     size_t column_stride, float* packed);                       \
  size_t count_##name(size_t n);                                                 \
  GemmPanel panel_##name(size_t n);
#include "kernels/gemm/kernels.inc"
#undef PALM_KERNEL

struct GemmKernel {
  GemmFn run;
  PackGemmFn pack;
  CountGemmFn count_panels;
  PanelGemmFn first_panel;
};

GemmKernel find_gemm(uint32_t isa);

// All of `gemm`, of one segment or two and every panel, its tiles shared out to the pool.
void run_gemm(const GemmKernel& kernel, const Gemm& gemm, Pool& pool);

}  // namespace palm
