#pragma once
#include <cstddef>

#include "base/cpu.h"
#include "kernels/epilogue.h"

namespace palm {

// Convolution of each channel by itself: y[r][ox][c] = epilogue(sum over ky, kx of
// x[r * stride - top + ky * dilation][ox * stride - left + kx * dilation][c] * w[ky][kx][c]), taps
// outside of the image left out; r counts the rows of all images, out_height an image.
// Sums run in the order of ky, kx wherever the rows are split.
struct Depthwise {
  size_t height, width, out_height, out_width, channels;
  size_t kernel_height, kernel_width;
  size_t stride_y, stride_x;
  size_t dilation_y, dilation_x;
  ptrdiff_t top, left;
  const float* x;
  size_t x_pixel;        // floats from a pixel to the next
  const float* weights;  // packed
  float* y;
  size_t y_pixel;  // likewise
  Epilogue epilogue;
};

// Rows [begin, end) of y, and of these the channels [first, last); first is a multiple of 16.
using DepthwiseFn = void (*)(const Depthwise& d, size_t begin, size_t end, size_t first,
                             size_t last);

// Packs weights[c * taps + t]; returns the floats that it takes; `packed` may be null.
using PackDepthwiseFn = size_t (*)(size_t channels, size_t taps, const float* weights,
                                   float* packed);

#define PALM_KERNEL(need, name)                                                           \
  void name(const Depthwise& d, size_t begin, size_t end, size_t first, size_t last);     \
  size_t pack_##name(size_t channels, size_t taps, const float* weights, float* packed);
#include "kernels/depthwise/kernels.inc"
#undef PALM_KERNEL

struct DepthwiseKernel {
  DepthwiseFn run;
  PackDepthwiseFn pack;
};

DepthwiseKernel find_depthwise(uint32_t isa);

// The most rows that a kernel makes at once.
constexpr size_t kDepthwiseRows = 4;

// In how many rows, at least, threads are to share out `rows` of them: as many as a kernel makes at
// once, less where one thread would have much more to do than another.
inline size_t depthwise_rows_at_once(size_t rows, size_t threads) {
  size_t unit = kDepthwiseRows;
  const auto most = [&] { return (rows + unit * threads - 1) / (unit * threads) * unit; };
  while (unit > 1 && most() * threads > rows + rows / 8) unit /= 2;
  return unit;
}

}  // namespace palm
