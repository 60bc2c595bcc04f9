#include "kernels/conv_int8/conv_int8.h"
#include "kernels/conv_int8/rows.h"
#include "kernels/gemm_int8/gemm_int8.h"

namespace palm {
namespace {

// As conv/row_conv.cc: a row of y is a GEMM of kernel_height segments that reads rows of x.
class RowConv : public ConvInt8 {
 public:
  RowConv(const Node& node, const ConvShape& shape, const GemmInt8Kernel& kernel)
      : ConvInt8(node, shape, kernel.offset()),
        kernel_(kernel),
        depth_(shape.kernel_width * shape.channels),
        rows_(shape_, (4 - depth_ % 4) % 4, x_zero_) {
    const size_t all = depth_ * shape.kernel_height, n = shape.out_channels;
    weights_ = Arena(kernel_.pack(shape.kernel_height, depth_, n, nullptr, all, nullptr));
    kernel_.pack(shape.kernel_height, depth_, n, weights(node), all, weights_.data());
    panels_ = kernel_.count_panels(n);
  }

  size_t scratch_bytes(int threads) const override {
    return checked_product(static_cast<size_t>(threads), rows_.bytes());
  }

  void run(const Buffers& b) const override {
    const ConvShape& s = shape_;
    const size_t work = s.out_width * s.out_channels * s.taps() * s.channels / 4 + 1;
    const EpilogueInt8 e = epilogue(b);
    const auto row_of = [&](size_t row, const uint8_t* const* segments) {
      const size_t pixel = row * s.out_width;
      kernel_.run({s.out_width, s.out_channels, depth_, s.kernel_height, segments,
                   s.stride_x * s.channels, weights_.data(), y(b) + pixel * s.y_pixel,
                   s.y_pixel, 0, panels_, e.from_pixel(pixel)});
    };
    b.pool->parallel(s.images * s.out_height, grain_of(work),
                     [&](size_t begin, size_t end, int thread) {
                       char* const own = b.scratch + static_cast<size_t>(thread) * rows_.bytes();
                       rows_.run(x(b), own, begin, end, row_of);
                     });
  }

 private:
  const GemmInt8Kernel kernel_;
  const size_t depth_;
  const Rows rows_;
  size_t panels_;
  Arena weights_;
};

}  // namespace

StepPtr make_row_conv_int8(const Node& node, const ConvShape& shape) {
  return std::make_unique<RowConv>(
      node, shape,
      find_gemm_int8(node.isa, shape.kernel_height, shape.kernel_width * shape.channels));
}

// In narrow images tiles would be cut short, and weights read too often.
bool suits_rows_int8(const ConvShape& s) {
  constexpr size_t kNarrow = 12;
  return suits_rows(s) && s.out_width >= kNarrow;
}

}  // namespace palm
