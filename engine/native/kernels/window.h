#pragma once
#include "base/step.h"

namespace palm {

// A window that slides over images, from the attributes strides, dilations and pads.
struct Window {
  Window(const Node& node, size_t kernel_height, size_t kernel_width);

  size_t taps() const { return kernel_height * kernel_width; }
  // Where the window fits in an image of that size with its padding; 0 if it is too large.
  size_t rows(size_t height) const;
  size_t columns(size_t width) const;

  // The columns [begin, end) of `out_width` whose windows have no padding at left and right.
  void inside(size_t width, size_t out_width, size_t& begin, size_t& end) const;

  size_t kernel_height, kernel_width, stride_y, stride_x, dilation_y, dilation_x;
  size_t top, left, bottom, right;
};

// The integer attribute's value, or Error if it is not in [least, 2^20].
size_t size_attr(const Ints& values, size_t i, const char* name, int64_t least);

// Throws Error unless the tensor has 4 dims.
const Tensor& image(const Tensor& tensor);

}  // namespace palm
