#include "kernels/conv/conv.h"
#include "kernels/depthwise/depthwise.h"

namespace palm {
namespace {

class DepthwiseConv : public Conv {
 public:
  DepthwiseConv(const Node& node, const ConvShape& shape)
      : Conv(node, shape), kernel_(find_depthwise(node.isa)) {
    const float* w = node.constant(kWeights, node.in(kWeights).count);
    const size_t floats = kernel_.pack(shape.out_channels, shape.taps(), w, nullptr);
    weights_ = Arena(floats * sizeof(float));
    kernel_.pack(shape.out_channels, shape.taps(), w, weights_.floats());
  }

  // The kernel writes y before it reads the residual.
  bool in_place(size_t) const override { return false; }

  // With more outputs than inputs the image is first repeated that often, channel by channel.
  size_t scratch_bytes(int) const override {
    if (shape_.group_out == 1) return 0;
    return checked_product(
        checked_product(shape_.images * shape_.height * shape_.width, shape_.out_channels),
        sizeof(float));
  }

  void run(const Buffers& b) const override {
    const ConvShape& s = shape_;
    const float* x = b.in(kX);
    size_t x_pixel = s.x_pixel;
    if (s.group_out > 1) {
      float* const repeated = reinterpret_cast<float*>(b.scratch);
      b.pool->parallel(s.images * s.height * s.width, grain_of(s.out_channels * kWorkOfTouching),
                       [&](size_t begin, size_t end, int) {
                         float* to = repeated + begin * s.out_channels;
                         for (size_t i = begin; i < end; ++i)
                           for (size_t c = 0; c < s.channels; ++c)
                             for (size_t j = 0; j < s.group_out; ++j) *to++ = x[i * x_pixel + c];
                       });
      x = repeated, x_pixel = s.out_channels;
    }
    const Depthwise d{s.height,
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
                      x,
                      x_pixel,
                      weights_.floats(),
                      b.out(),
                      s.y_pixel,
                      epilogue(b)};
    const size_t rows = s.images * s.out_height, threads = static_cast<size_t>(b.pool->threads());
    const size_t work = s.out_width * s.taps() * 2;
    if (rows < kDepthwiseRows * threads) {
      b.pool->parallel(s.out_channels, grain_of(work * rows, kFloatsInLine),
                       [&](size_t begin, size_t end, int) { kernel_.run(d, 0, rows, begin, end); });
    } else {
      b.pool->parallel(
          rows, grain_of(work * s.out_channels, depthwise_rows_at_once(rows, threads)),
          [&](size_t begin, size_t end, int) { kernel_.run(d, begin, end, 0, s.out_channels); });
    }
  }

 private:
  static constexpr size_t kFloatsInLine = 16;

  DepthwiseKernel kernel_;
  Arena weights_;
};

}  // namespace

StepPtr make_depthwise_conv(const Node& node, const ConvShape& shape) {
  return std::make_unique<DepthwiseConv>(node, shape);
}

}  // namespace palm
