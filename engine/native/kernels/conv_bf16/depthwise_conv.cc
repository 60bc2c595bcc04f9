#include "kernels/conv/bf16_conv.h"
#include "kernels/depthwise_bf16/depthwise_bf16.h"

namespace palm {
namespace {

class DepthwiseConv : public Bf16Conv {
 public:
  DepthwiseConv(const Node& node, const ConvShape& shape)
      : Bf16Conv(node, shape), kernel_(find_depthwise_bf16(node.isa)) {
    const float* w = node.constant(kWeights, node.in(kWeights).count);
    const size_t height = shape.kernel_height, width = shape.kernel_width;
    weights_ = Arena(kernel_.pack(shape.out_channels, height, width, w, nullptr));
    kernel_.pack(shape.out_channels, height, width, w, weights_.data());
  }

  // With more outputs than inputs the image is first repeated that often, channel by channel.
  size_t scratch_bytes(int) const override {
    return checked_product(checked_product(pixels(), shape_.out_channels), sizeof(Bf16));
  }

  void run(const Buffers& b) const override {
    const ConvShape& s = shape_;
    EitherIn x = this->x(b);
    size_t x_pixel = s.x_pixel;
    if (!x.is_narrow || s.group_out > 1) {
      Bf16* const copy = reinterpret_cast<Bf16*>(b.scratch);
      b.pool->parallel(pixels(), grain_of(s.out_channels * kWorkOfTouching),
                       [&](size_t begin, size_t end, int) {
                         Bf16* const to = copy + begin * s.out_channels;
                         const size_t count = (end - begin) * s.channels;
                         if (s.group_out == 1 && x_pixel == s.channels)
                           return load(x + begin * x_pixel, count, to);
                         for (size_t i = 0; i < count; ++i) {
                           const size_t pixel = begin + i / s.channels, c = i % s.channels;
                           load(x + (pixel * x_pixel + c), 1, to + i * s.group_out);
                         }
                         for (size_t i = 0; i < count * s.group_out; ++i)
                           to[i] = to[i / s.group_out * s.group_out];
                       });
      x = {copy, true}, x_pixel = s.out_channels;
    }
    const DepthwiseBf16 d{s.height,
                          s.width,
                          s.out_height,
                          s.out_width,
                          s.out_channels,
                          s.kernel_height,
                          s.kernel_width,
                          s.stride_y,
                          s.stride_x,
                          s.dilation_y,
                          s.dilation_x,
                          static_cast<ptrdiff_t>(s.top),
                          static_cast<ptrdiff_t>(s.left),
                          x.narrow(),
                          x_pixel,
                          weights_.data(),
                          y(b),
                          s.y_pixel,
                          epilogue(b)};
    constexpr size_t kTileRows = 4;
    const size_t work = s.out_width * s.out_channels * s.taps();
    b.pool->parallel(s.images * s.out_height, grain_of(work, kTileRows),
                     [&](size_t begin, size_t end, int) { kernel_.run(d, begin, end); });
  }

 private:
  size_t pixels() const { return shape_.images * shape_.height * shape_.width; }

  DepthwiseBf16Kernel kernel_;
  Arena weights_;
};

}  // namespace

StepPtr make_depthwise_conv_bf16(const Node& node, const ConvShape& shape) {
  return std::make_unique<DepthwiseConv>(node, shape);
}

}  // namespace palm
