#include <algorithm>
#include <cstring>

#include "base/arena.h"
#include "kernels/conv_int8/conv_int8.h"
#include "kernels/gemm_int8/gemm_int8.h"

namespace palm {
namespace {

// As conv/row_conv.cc: a row of y is a GEMM of kernel_height segments that reads rows of x. Where
// these need padding at their ends, or bytes behind them would be read, such rows are kept.
class RowConv : public ConvInt8 {
 public:
  RowConv(const Node& node, const ConvShape& shape, const GemmInt8Kernel& kernel)
      : ConvInt8(node, shape, kernel.offset()),
        kernel_(kernel),
        depth_(shape.kernel_width * shape.channels),
        reach_((shape.out_width - 1) * shape.stride_x + shape.kernel_width) {
    const size_t all = depth_ * shape.kernel_height, n = shape.out_channels;
    weights_ = Arena(kernel_.pack(shape.kernel_height, depth_, n, nullptr, all, nullptr));
    kernel_.pack(shape.kernel_height, depth_, n, weights(node), all, weights_.data());
    panels_ = kernel_.count_panels(n);
    if (shape.left || reach_ > shape.width || depth_ % 4)
      kept_rows_ = (shape.kernel_height - 1) * shape.dilation_y + 1;
    line_ = round_up(checked_product(reach_, shape.channels) + 3);
  }

  size_t scratch_bytes(int threads) const override {
    return checked_product(static_cast<size_t>(threads), thread_bytes());
  }

  void run(const Buffers& b) const override {
    const size_t work = shape_.out_width * shape_.out_channels * shape_.taps() * shape_.channels;
    b.pool->parallel(shape_.images * shape_.out_height, grain_of(work / 4 + 1),
                     [&](size_t begin, size_t end, int thread) {
                       rows(b, begin, end,
                            b.scratch + static_cast<size_t>(thread) * thread_bytes());
                     });
  }

 private:
  // The kept lines, one of x's zeros, and a pointer for each row of the kernel.
  size_t thread_bytes() const {
    return checked_product(kept_rows_ + 1, line_) + round_up(shape_.kernel_height * sizeof(char*));
  }

  void rows(const Buffers& b, size_t begin, size_t end, char* scratch) const {
    const ConvShape& s = shape_;
    uint8_t* const lines = reinterpret_cast<uint8_t*>(scratch);
    const uint8_t* const zeros = lines + kept_rows_ * line_;
    const uint8_t** const segments =
        reinterpret_cast<const uint8_t**>(scratch + (kept_rows_ + 1) * line_);
    const EpilogueInt8 e = epilogue(b);
    std::memset(lines, x_zero_, (kept_rows_ + 1) * line_);
    const size_t row_bytes = s.width * s.channels;
    const size_t loads = std::min(s.left, reach_), loads_end = std::min(reach_, s.left + s.width);
    const size_t loaded_bytes = (loads_end - loads) * s.channels;
    size_t loaded = 0;  // padded rows before this one are in `lines`, or no more needed
    for (size_t row = begin; row < end; ++row) {
      const size_t first = row % s.out_height * s.stride_y;
      const uint8_t* const image = x(b) + row / s.out_height * s.height * row_bytes;
      if (row == begin || first == 0) loaded = first;
      for (loaded = std::max(loaded, first); loaded < first + kept_rows_; ++loaded) {
        if (loaded - s.top >= s.height || loaded_bytes == 0) continue;
        std::memcpy(lines + loaded % kept_rows_ * line_ + loads * s.channels,
                    image + (loaded - s.top) * row_bytes, loaded_bytes);
      }
      for (size_t ky = 0; ky < s.kernel_height; ++ky) {
        const size_t at = first + ky * s.dilation_y;
        if (at - s.top >= s.height) segments[ky] = zeros;
        else if (kept_rows_) segments[ky] = lines + at % kept_rows_ * line_;
        else segments[ky] = image + (at - s.top) * row_bytes;
      }
      const size_t pixel = row * s.out_width;
      kernel_.run({s.out_width, s.out_channels, depth_, s.kernel_height, segments,
                   s.stride_x * s.channels, weights_.data(), y(b) + pixel * s.out_channels,
                   s.out_channels, 0, panels_, e.from_pixel(pixel)});
    }
  }

  const GemmInt8Kernel kernel_;
  const size_t depth_, reach_;
  size_t panels_, kept_rows_ = 0, line_;
  Arena weights_;
};

}  // namespace

StepPtr make_row_conv_int8(const Node& node, const ConvShape& shape) {
  return std::make_unique<RowConv>(node, shape, find_gemm_int8(node.isa));
}

// In narrow images tiles would be cut short, and weights read too often.
bool suits_rows_int8(const ConvShape& s) {
  constexpr size_t kNarrow = 12;
  return suits_rows(s) && s.out_width >= kNarrow;
}

}  // namespace palm
