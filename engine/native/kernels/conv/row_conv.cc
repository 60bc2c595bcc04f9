#include <algorithm>
#include <cstring>

#include "kernels/conv/conv.h"
#include "kernels/gemm/gemm.h"

namespace palm {
namespace {

// The kernel_width * channels floats under one row of the kernel lie side by side, so a row of y is
// a GEMM of kernel_height segments that reads rows of x. Where these need padding at their ends,
// such rows are kept, as many as the kernel is high, while y goes down.
class RowConv : public Conv {
 public:
  RowConv(const Node& node, const ConvShape& shape)
      : Conv(node, shape), kernel_(find_gemm(node.isa)) {
    const size_t depth = shape.taps() * shape.channels;
    const float* w = node.constant(kWeights, node.in(kWeights).count);
    const size_t floats = kernel_.pack(depth, shape.out_channels, nullptr, 1, depth, nullptr);
    weights_ = Arena(floats * sizeof(float));
    kernel_.pack(depth, shape.out_channels, w, 1, depth, weights_.floats());
    panels_ = kernel_.count_panels(shape.out_channels);
    const bool pads =
        shape.left || (shape.out_width - 1) * shape.stride_x + shape.kernel_width > shape.width;
    if (pads) kept_rows_ = (shape.kernel_height - 1) * shape.dilation_y + 1;
    line_ = checked_product((shape.out_width - 1) * shape.stride_x + shape.kernel_width,
                            shape.channels);
    line_ = round_up(line_ * sizeof(float)) / sizeof(float);
  }

  size_t scratch_bytes(int threads) const override {
    return checked_product(static_cast<size_t>(threads), thread_bytes());
  }

  void run(const Buffers& b) const override {
    const size_t work = shape_.out_width * shape_.out_channels * shape_.taps() * shape_.channels;
    b.pool->parallel(shape_.images * shape_.out_height, grain_of(work),
                     [&](size_t begin, size_t end, int thread) {
                       rows(b, begin, end,
                            b.scratch + static_cast<size_t>(thread) * thread_bytes());
                     });
  }

 private:
  // The kept lines, a line of zeros, and a pointer for each row of the kernel.
  size_t thread_bytes() const {
    return checked_product(kept_rows_ + 1, line_ * sizeof(float)) +
           round_up(shape_.kernel_height * sizeof(float*));
  }

  void rows(const Buffers& b, size_t begin, size_t end, char* scratch) const {
    const ConvShape& s = shape_;
    float* const lines = reinterpret_cast<float*>(scratch);
    const float* const zeros = lines + kept_rows_ * line_;
    const float** const segments =
        reinterpret_cast<const float**>(lines + (kept_rows_ + 1) * line_);
    std::memset(lines, 0, (kept_rows_ + 1) * line_ * sizeof(float));
    const Epilogue e = epilogue(b);
    const size_t left = s.left * s.channels;
    const size_t floats = left < line_ ? std::min(s.width * s.channels, line_ - left) : 0;
    const size_t out_floats = s.out_width * s.out_channels;
    size_t loaded = 0;  // padded rows before this one are in `lines`, or no more needed
    for (size_t row = begin; row < end; ++row) {
      const size_t first = row % s.out_height * s.stride_y;
      const float* const image = b.in(kX) + row / s.out_height * s.height * s.width * s.channels;
      if (row == begin || first == 0) loaded = first;
      for (loaded = std::max(loaded, first); loaded < first + kept_rows_; ++loaded) {
        if (loaded - s.top < s.height) {
          std::memcpy(lines + loaded % kept_rows_ * line_ + left,
                      image + (loaded - s.top) * s.width * s.channels, floats * sizeof(float));
        }
      }
      for (size_t ky = 0; ky < s.kernel_height; ++ky) {
        const size_t y = first + ky * s.dilation_y;
        if (y - s.top >= s.height) segments[ky] = zeros;
        else if (kept_rows_) segments[ky] = lines + y % kept_rows_ * line_;
        else segments[ky] = image + (y - s.top) * s.width * s.channels;
      }
      kernel_.run({s.out_width, s.out_channels, s.kernel_width * s.channels, s.kernel_height,
                   segments, s.stride_x * s.channels, weights_.floats(), b.out() + row * out_floats,
                   s.out_channels, 0, panels_, e.from_pixel(row * s.out_width)});
    }
  }

  GemmKernel kernel_;
  size_t panels_, kept_rows_ = 0, line_;
  Arena weights_;
};

}  // namespace

StepPtr make_row_conv(const Node& node, const ConvShape& shape) {
  return std::make_unique<RowConv>(node, shape);
}

bool suits_rows(const ConvShape& s) { return s.groups == 1 && s.dilation_x == 1 && !s.is_matrix(); }

}  // namespace palm
