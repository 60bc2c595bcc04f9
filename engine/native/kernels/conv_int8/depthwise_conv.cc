#include "kernels/conv_int8/conv_int8.h"
#include "kernels/conv_int8/rows.h"
#include "kernels/depthwise_int8/depthwise_int8.h"

namespace palm {
namespace {

class DepthwiseConv : public ConvInt8 {
 public:
  DepthwiseConv(const Node& node, const ConvShape& shape, const DepthwiseInt8Kernel& kernel)
      : ConvInt8(node, shape, kernel.offset()),
        kernel_(kernel),
        rows_(shape_, window().slack(), x_zero_) {
    const EpilogueInt8 e = epilogue();
    weights_ = Arena(kernel_.pack(window(), shape.out_width, nullptr, e, nullptr));
    kernel_.pack(window(), shape.out_width, weights(node), e, weights_.data());
  }

  size_t scratch_bytes(int threads) const override {
    return checked_product(static_cast<size_t>(threads), rows_.bytes());
  }

  void run(const Buffers& b) const override {
    const ConvShape& s = shape_;
    const EpilogueInt8 e = epilogue(b);
    const auto row_of = [&](size_t row, const uint8_t* const* segments) {
      const size_t pixel = row * s.out_width;
      kernel_.run({window(), s.out_width, segments, weights_.data(), y(b) + pixel * s.y_pixel,
                   s.y_pixel, e.from_pixel(pixel)});
    };
    b.pool->parallel(s.images * s.out_height, grain_of(s.out_width * s.channels * s.taps() / 2 + 1),
                     [&](size_t begin, size_t end, int thread) {
                       char* const own = b.scratch + static_cast<size_t>(thread) * rows_.bytes();
                       rows_.run(x(b), own, begin, end, row_of);
                     });
  }

 private:
  DepthwiseInt8Window window() const {
    const ConvShape& s = shape_;
    return {s.kernel_height, s.kernel_width, s.stride_x, s.dilation_x, s.channels};
  }

  const DepthwiseInt8Kernel kernel_;
  const Rows rows_;
  Arena weights_;
};

}  // namespace

StepPtr make_depthwise_conv_int8(const Node& node, const ConvShape& shape) {
  return std::make_unique<DepthwiseConv>(node, shape, find_depthwise_int8(node.isa));
}

bool suits_depthwise_int8(const ConvShape& s) {
  return suits_depthwise(s) && s.group_out == 1 && s.taps() <= DepthwiseInt8::kMostTaps;
}

}  // namespace palm
