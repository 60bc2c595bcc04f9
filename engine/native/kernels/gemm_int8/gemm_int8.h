#pragma once
#include "base/cpu.h"
#include "kernels/epilogue_int8.h"
#include "kernels/gemm/gemm.h"

namespace palm {

// c[i][j] = epilogue(sum over s < segments, p < k of (a[s][i * lda + p] - offset) * b[s * k +
// p][j]) for i < m, j in the panels [first_panel, last_panel) of n columns. k, segments > 0. Up to
// 3 bytes beyond the k of a segment are read, whatever they are. a and the residual may not overlap
// c. The epilogue's bias, scale and slope: kSlack more of each are read.
struct GemmInt8 {
  size_t m, n, k;
  size_t segments;
  const uint8_t* const* a;
  size_t lda;
  const char* b;  // packed
  OutInt8 c;
  size_t ldc;
  size_t first_panel, last_panel;
  EpilogueInt8 epilogue;

  static constexpr size_t kSlack = 32;
};

struct GemmInt8Kernel {
  void (*run)(const GemmInt8& gemm);
  // Packs b[s * k + p][j] = source[j * column_stride + s * k + p] into panels. Returns the bytes
  // that it takes; `packed` may be null.
  size_t (*pack)(size_t segments, size_t k, size_t n, const int8_t* source, size_t column_stride,
                 char* packed);
  CountGemmFn count_panels;
  PanelGemmFn first_panel;
  int32_t (*offset)();  // what is taken off each of a
};

#define PALM_KERNEL(need, name)                                                 \
  void name(const GemmInt8& gemm);                                              \
  size_t pack_##name(size_t segments, size_t k, size_t n, const int8_t* source, \
                     size_t column_stride, char* packed);                       \
  size_t count_##name(size_t n);                                                \
  GemmPanel panel_##name(size_t n);                                             \
  int32_t offset_##name();
#include "kernels/gemm_int8/kernels.inc"
#undef PALM_KERNEL

// The best of `isa`.
GemmInt8Kernel find_gemm_int8(uint32_t isa);

// The fastest of `isa` for so many segments of k.
GemmInt8Kernel find_gemm_int8(uint32_t isa, size_t segments, size_t k);

// All of `gemm`, of one segment and every panel, its tiles shared out to the pool.
void run_gemm(const GemmInt8Kernel& kernel, const GemmInt8& gemm, Pool& pool);

}  // namespace palm
