#pragma once
#include <cstddef>
#include <cstdint>

#include "base/arena.h"
#include "base/cpu.h"
#include "base/threads.h"
#include "kernels/epilogue.h"

namespace palm {

// c[j] = epilogue(sum over p < k of a[p] * b[p][j]), j < n: a matrix by a vector, b of float16. It
// is reading b that takes the time, and that is half of what floats are. Each c is, bit for bit,
// what kernels/gemm makes of the same numbers.
struct GemvF16 {
  // Columns that lie together: b is packed as panels of so many, zeros behind the last.
  static constexpr size_t kPanel = 64;

  size_t n, k;
  const float* a;
  const uint16_t* b;
  float* c;
  Epilogue epilogue;
};

// The columns of the panels [begin, end).
using GemvF16Fn = void (*)(const GemvF16& g, size_t begin, size_t end);

#define PALM_KERNEL(need, name) void name(const GemvF16& g, size_t begin, size_t end);
#include "kernels/gemv_f16/kernels.inc"
#undef PALM_KERNEL

GemvF16Fn find_gemv_f16(uint32_t isa);  // null: there is none

// Packs b[p][j] = source[p * row_stride + j * column_stride]. Empty if one of them is no float16,
// if they are so few that they stay in a cache, or if many of the panels' columns would be none.
Arena pack_gemv_f16(size_t k, size_t n, const float* source, size_t row_stride,
                    size_t column_stride);

// All columns, shared out to the pool.
void run_gemv_f16(GemvF16Fn kernel, const GemvF16& g, Pool& pool);

}  // namespace palm
