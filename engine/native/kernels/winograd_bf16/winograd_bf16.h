#pragma once
#include "base/cpu.h"
#include "kernels/epilogue_bf16.h"

namespace palm {

// 3x3 convolution with stride 1 as F(4x4, 3x3) of Winograd (Lavin and Gray, 2015) with products of
// Bf16: patches and weights are rounded once they are in the other basis, all else is float.
// The points of the basis are 0, +-kP, +-kQ and infinity, as for float.
struct WinogradBf16 {
  static constexpr size_t kTile = 4, kPatch = 6, kProducts = kPatch * kPatch;
  static constexpr float kP = 11.f / 16, kQ = 11.f / 8;
  // Patches are up to 24 times as large as x: they are divided by this, and weights multiplied, so
  // that no finite x goes beyond float16.
  static constexpr float kScale = kNarrow == DType::kFloat16 ? 32.f : 1.f;

  size_t height, width, channels, out_height, out_width, out_channels;
  ptrdiff_t top, left;
  size_t tiles_across, tiles_down;  // of one image
  EitherIn x;
  size_t x_stride;  // numbers from a pixel to the next
  EitherOut y;
  size_t y_stride;  // likewise
  Bf16* patches;    // product p of tile t: patches + p * patch_stride + t * channels
  float* products;  // the same with out_channels
  size_t patch_stride, product_stride;
  EpilogueBf16 epilogue;
};

struct WinogradBf16Kernel {
  // Tiles [begin, end) of those of all images, the first of which is tile `first` of patches.
  void (*gather)(const WinogradBf16& w, size_t first, size_t begin, size_t end);
  void (*scatter)(const WinogradBf16& w, size_t first, size_t begin, size_t end);
};

// The kernels [3][3] of the inputs [0, channels) of one output, at weights + c + tap * channels, in
// the other basis: product p of input c at transformed[p * plane + c].
void winograd_bf16_weights(const float* weights, size_t channels, float* transformed, size_t plane);

#define PALM_KERNEL(need, name)                                                      \
  void gather_##name(const WinogradBf16& w, size_t first, size_t begin, size_t end); \
  void scatter_##name(const WinogradBf16& w, size_t first, size_t begin, size_t end);
#include "kernels/winograd_bf16/kernels.inc"
#undef PALM_KERNEL

// Throws Error if the set has none.
WinogradBf16Kernel find_winograd_bf16(uint32_t isa);

}  // namespace palm
