#pragma once
#include <algorithm>
#include <cstring>

#include "base/arena.h"
#include "kernels/conv/conv.h"

namespace palm {

// Rows of x as windows see them. Where these need padding at their ends, or bytes behind them would
// be read, such rows are kept, as many as the kernel is high, while y goes down.
class Rows {
 public:
  // slack: bytes that are read behind a row. zero: what lies beyond the borders.
  Rows(const ConvShape& shape, size_t slack, uint8_t zero)
      : shape_(shape),
        reach_((shape.out_width - 1) * shape.stride_x +
               (shape.kernel_width - 1) * shape.dilation_x + 1),
        zero_(zero) {
    if (shape.left || reach_ > shape.width || slack || shape.x_pixel != shape.channels)
      kept_rows_ = (shape.kernel_height - 1) * shape.dilation_y + 1;
    line_ = round_up(checked_product(reach_, shape.channels) + slack);
  }

  // Of scratch: the kept lines, one of zeros, and a pointer for each row of the kernel.
  size_t bytes() const {
    return checked_product(kept_rows_ + 1, line_) + round_up(shape_.kernel_height * sizeof(char*));
  }

  // body(row, segments) for the rows [begin, end) of all images' y, segments being where the window
  // of the first output begins in each row of the kernel.
  template <class Body>
  void run(const uint8_t* x, char* scratch, size_t begin, size_t end, Body body) const {
    const ConvShape& s = shape_;
    uint8_t* const lines = reinterpret_cast<uint8_t*>(scratch);
    const uint8_t* const zeros = lines + kept_rows_ * line_;
    const uint8_t** const segments =
        reinterpret_cast<const uint8_t**>(scratch + (kept_rows_ + 1) * line_);
    std::memset(lines, zero_, (kept_rows_ + 1) * line_);
    const size_t row_bytes = s.width * s.x_pixel;
    const size_t loads = std::min(s.left, reach_), loads_end = std::min(reach_, s.left + s.width);
    const size_t pixels = loads_end - loads;
    size_t loaded = 0;  // padded rows before this one are in `lines`, or no more needed
    for (size_t row = begin; row < end; ++row) {
      const size_t first = row % s.out_height * s.stride_y;
      const uint8_t* const image = x + row / s.out_height * s.height * row_bytes;
      if (row == begin || first == 0) loaded = first;
      for (loaded = std::max(loaded, first); loaded < first + kept_rows_; ++loaded) {
        if (loaded - s.top >= s.height || pixels == 0) continue;
        uint8_t* const to = lines + loaded % kept_rows_ * line_ + loads * s.channels;
        const uint8_t* const from = image + (loaded - s.top) * row_bytes;
        const size_t runs = s.x_pixel == s.channels ? 1 : pixels, bytes = pixels / runs * s.channels;
        for (size_t i = 0; i < runs; ++i) std::memcpy(to + i * bytes, from + i * s.x_pixel, bytes);
      }
      for (size_t ky = 0; ky < s.kernel_height; ++ky) {
        const size_t at = first + ky * s.dilation_y;
        if (at - s.top >= s.height) segments[ky] = zeros;
        else if (kept_rows_) segments[ky] = lines + at % kept_rows_ * line_;
        else segments[ky] = image + (at - s.top) * row_bytes;
      }
      body(row, segments);
    }
  }

 private:
  const ConvShape& shape_;
  const size_t reach_;
  const uint8_t zero_;
  size_t kept_rows_ = 0, line_;
};

}  // namespace palm
