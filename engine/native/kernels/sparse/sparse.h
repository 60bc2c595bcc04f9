#pragma once
#include <cstddef>
#include <cstdint>

#include "base/cpu.h"
#include "kernels/epilogue.h"

namespace palm {

// A weight that is not zero. offset: of its channel's line, in floats.
struct SparseWeight {
  uint32_t offset;
  float value;
};

// y[i][m] = epilogue(sum over the weights of m of value * x[i][its channel]) for a block of pixels.
// Pixels lie side by side in vectors, so that weights may be zero anywhere; for that x is
// transposed into lines, one a channel. After XNNPACK (Elsen et al., Fast Sparse ConvNets, arXiv
// 1911.09723).
struct Sparse {
  size_t pixels, in, out;
  const float* x;  // of the block's first pixel
  size_t x_stride;
  float* lines;                 // in * stride floats
  const SparseWeight* weights;  // of all channels, one after the other
  const uint32_t* ends;         // weights of m lie before ends[m], and from ends[m - 1] on
  float* y;                     // of the block's first pixel
  size_t y_stride;
  Epilogue epilogue;
};

// The most pixels of a block, and the floats from a line to the next.
struct SparseBlock {
  size_t width, stride;
};

// Fills the lines.
using GatherSparseFn = void (*)(const Sparse& sparse);
// The channels [begin, end), from the lines. What a sum is does not hang on which.
using SparseFn = void (*)(const Sparse& sparse, size_t begin, size_t end);

#define PALM_KERNEL(need, name)                              \
  void name(const Sparse& sparse, size_t begin, size_t end); \
  void gather_##name(const Sparse& sparse);                  \
  SparseBlock block_##name();
#include "kernels/sparse/kernels.inc"
#undef PALM_KERNEL

struct SparseKernel {
  GatherSparseFn gather;
  SparseFn multiply;
  SparseBlock block;
};

SparseKernel find_sparse(uint32_t isa);

}  // namespace palm
