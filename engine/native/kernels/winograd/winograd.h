#pragma once
#include <cstddef>

#include "base/cpu.h"
#include "kernels/epilogue.h"

namespace palm {

// 3x3 convolution with stride 1 as F(4x4, 3x3) of Winograd (Lavin and Gray, 2015): a tile of 4x4
// pixels of y is, in another basis, 36 products of 6x6 values of x with as many of the kernel.
// The points of the basis are 0, +-kP, +-kQ and infinity; numbers near 1 and their squares lose
// less than the usual 1 and 2 (Alam et al., Winograd Convolution for Deep Neural Networks:
// Efficient Point Selection, 2022): of those that floats hold exactly these had the least error in
// trials, 1e-6 of the root mean square over 128 channels, where 1 and 2 have 2.5e-6 and a plain sum
// 6e-7.
struct Winograd {
  static constexpr size_t kTile = 4, kPatch = 6, kProducts = kPatch * kPatch;
  static constexpr float kP = 11.f / 16, kQ = 11.f / 8;

  size_t height, width, channels, out_height, out_width, out_channels;
  ptrdiff_t top, left;
  size_t tiles_across, tiles_down;  // of one image
  const float* x;
  float* y;
  float* patches;   // product p of tile t: patches + p * patch_stride + t * channels
  float* products;  // the same with out_channels
  size_t patch_stride, product_stride;
  Epilogue epilogue;
};

struct WinogradKernel {
  // Tiles [begin, end) of those of all images, the first of which is tile `first` of patches.
  void (*gather)(const Winograd& w, size_t first, size_t begin, size_t end);
  void (*scatter)(const Winograd& w, size_t first, size_t begin, size_t end);
};

// A kernel [3][3] in the other basis.
void winograd_weights(const double (&kernel)[9], double (&transformed)[36]);

#define PALM_KERNEL(need, name)                                                  \
  void gather_##name(const Winograd& w, size_t first, size_t begin, size_t end); \
  void scatter_##name(const Winograd& w, size_t first, size_t begin, size_t end);
#include "kernels/winograd/kernels.inc"
#undef PALM_KERNEL

WinogradKernel find_winograd(uint32_t isa);

}  // namespace palm
