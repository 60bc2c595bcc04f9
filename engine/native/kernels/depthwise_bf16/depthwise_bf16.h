#pragma once
#include "base/cpu.h"
#include "kernels/epilogue_bf16.h"

namespace palm {

// Depthwise (see depthwise.h) of Bf16, products summed in float. Neither x nor the residual may
// overlap y.
struct DepthwiseBf16 {
  size_t height, width, out_height, out_width, channels;
  size_t kernel_height, kernel_width;
  size_t stride_y, stride_x;
  size_t dilation_y, dilation_x;
  ptrdiff_t top, left;
  const Bf16* x;
  size_t x_pixel;       // numbers from a pixel to the next
  const char* weights;  // packed
  EitherOut y;
  size_t y_pixel;  // likewise
  EpilogueBf16 epilogue;
};

struct DepthwiseBf16Kernel {
  // Rows [begin, end) of y.
  void (*run)(const DepthwiseBf16& d, size_t begin, size_t end);
  // Packs the nearest of weights[c * kernel_height * kernel_width + t]; returns the bytes that it
  // takes; `packed` may be null.
  size_t (*pack)(size_t channels, size_t kernel_height, size_t kernel_width, const float* weights,
                 char* packed);
};

#define PALM_KERNEL(need, name)                                                  \
  void name(const DepthwiseBf16& d, size_t begin, size_t end);                   \
  size_t pack_##name(size_t channels, size_t kernel_height, size_t kernel_width, \
                     const float* weights, char* packed);
#include "kernels/depthwise_bf16/kernels.inc"
#undef PALM_KERNEL

// Throws Error if the set has none.
DepthwiseBf16Kernel find_depthwise_bf16(uint32_t isa);

}  // namespace palm
