#pragma once
#include "base/step.h"

namespace palm {

// The taps [begin, end) of a window along an axis that lie inside of an image of `size`; the window
// begins at `at` of the image with `padding` before it. first: where in the image the first lies.
struct Taps {
  Taps(size_t at, size_t taps, size_t dilation, size_t padding, size_t size);
  size_t count() const { return end - begin; }

  size_t begin, end, first;
};

// A window that slides over images, from the attributes strides, dilations and pads.
struct Window {
  Window(const Node& node, size_t kernel_height, size_t kernel_width);

  size_t taps() const { return kernel_height * kernel_width; }
  // Those of a window in row oy, column ox, that lie inside of an image of that size.
  Taps down(size_t oy, size_t height) const {
    return {oy * stride_y, kernel_height, dilation_y, top, height};
  }
  Taps along(size_t ox, size_t width) const {
    return {ox * stride_x, kernel_width, dilation_x, left, width};
  }
  size_t most_taps(size_t height, size_t width) const;
  // With the padding, which ends where a window that is rounded up goes on.
  size_t padded_taps(size_t oy, size_t ox, size_t height, size_t width) const;
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
