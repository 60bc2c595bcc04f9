#pragma once
#include <cstddef>

#include "base/cpu.h"
#include "kernels/epilogue.h"

namespace palm {

// A convolution as products in another basis: see Basis. Each tile of y takes a patch of x, and has
// patch * patch products, each a GEMM over all tiles.
struct Winograd {
  static constexpr size_t kKernels = 16;

  size_t height, width, channels, out_height, out_width, out_channels;
  ptrdiff_t top, left;
  size_t tiles_across, tiles_down;  // of one image
  const float* x;
  size_t x_stride;     // floats from a pixel to the next
  const float* zeros;  // as many as channels: what lies outside of x
  float* y;
  size_t y_stride;   // likewise
  float* patches;   // product p of tile t: patches + p * patch_plane + t * patch_stride
  float* products;  // likewise
  size_t patch_plane, patch_stride, product_plane, product_stride;
  Epilogue epilogue;
};

// Tiles [begin, end) of those of all images, the first of which is tile `first` of patches.
using WinogradFn = void (*)(const Winograd& w, size_t first, size_t begin, size_t end);

// kKernels kernels, kernel m's tap t at w[t * tap_stride + m], in the other basis: its product p at
// transformed[p * kKernels + m].
using WinogradWeightsFn = void (*)(const float* w, size_t tap_stride, float* transformed);

// kKernels kernels' taps for the products below, those of a channel together: kernel m's tap t of
// channel c, at w[t * tap_stride + c * kKernels + m], goes to packed[(c * taps + t) * kKernels +
// m].
using WinogradPackFn = void (*)(const float* w, size_t tap_stride, size_t channels, float* packed);

// The products of the first `tiles` tiles of patches with kKernels kernels from `column` on, which
// are brought into the other basis in registers.
using WinogradMultiplyFn = void (*)(const Winograd& w, size_t tiles, const float* packed,
                                    size_t column);

struct WinogradKernel {
  WinogradFn gather;   // x to patches
  WinogradFn scatter;  // products to y
  WinogradWeightsFn weights;
  // Null where registers do not suffice.
  WinogradPackFn pack;
  WinogradMultiplyFn multiply;
};

// For tiles of `tile` by `tile` outputs of a kernel of `taps` by `taps`; all null if there is none.
using FindWinogradFn = WinogradKernel (*)(size_t tile, size_t taps);

#define PALM_KERNEL(need, name) WinogradKernel find_##name(size_t tile, size_t taps);
#include "kernels/winograd/kernels.inc"
#undef PALM_KERNEL

WinogradKernel find_winograd(uint32_t isa, size_t tile, size_t taps);

}  // namespace palm
