#pragma once
#include "base/cpu.h"
#include "kernels/epilogue_int8.h"

namespace palm {

// A window over a row of pixels: of kernel_height by kernel_width, taps `dilation` pixels apart,
// moved on by `stride` pixels.
struct DepthwiseInt8Window {
  size_t kernel_height, kernel_width, stride, dilation, channels;

  size_t taps() const { return kernel_height * kernel_width; }
  // Bytes that are read behind a row, whatever they are.
  size_t slack() const { return channels < 16 ? 16 - channels : 0; }
};

// `columns` pixels of one row, each channel convolved by itself: y[x][c] = epilogue(sum over ky, kx
// of (rows[ky][x * stride + kx * dilation][c] - offset) * w[ky][kx][c]).
struct DepthwiseInt8 {
  DepthwiseInt8Window window;  // of at most kMostTaps
  size_t columns;
  const uint8_t* const* rows;
  const char* weights;  // packed
  OutInt8 y;
  size_t y_pixel;  // numbers from a pixel to the next
  EpilogueInt8 epilogue;

  static constexpr size_t kMostTaps = 64;
};

struct DepthwiseInt8Kernel {
  void (*run)(const DepthwiseInt8& d);
  // Packs w[c][ky][kx] for rows of `columns`, with the epilogue's bias and scale. Returns the bytes
  // that it takes; `packed` may be null.
  size_t (*pack)(const DepthwiseInt8Window& window, size_t columns, const int8_t* w,
                 const EpilogueInt8& epilogue, char* packed);
  int32_t (*offset)();  // what is taken off each of x
};

#define PALM_KERNEL(need, name)                                                          \
  void name(const DepthwiseInt8& d);                                                     \
  size_t pack_##name(const DepthwiseInt8Window& window, size_t columns, const int8_t* w, \
                     const EpilogueInt8& epilogue, char* packed);                        \
  int32_t offset_##name();
#include "kernels/depthwise_int8/kernels.inc"
#undef PALM_KERNEL

DepthwiseInt8Kernel find_depthwise_int8(uint32_t isa);

}  // namespace palm
