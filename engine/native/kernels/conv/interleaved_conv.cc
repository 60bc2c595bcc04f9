#include <vector>

#include "kernels/conv/float_conv.h"

namespace palm {
namespace {

// 1x1 convolution of an image whose channels are those from `first` on of two others by turns, as
// where channels are shuffled (Ma et al., ShuffleNet V2, arXiv 1807.11164): a GEMM of two segments
// by weights in another order, and that image is never made.
class InterleavedConv : public FloatConv {
 public:
  InterleavedConv(const Node& node, const ConvShape& shape)
      : FloatConv(node, shape), kernel_(find_gemm(node.isa)), first_(node.attrs.size("first")) {
    const size_t k = shape.channels, n = shape.out_channels;
    const bool fits = shape.is_matrix() && shape.groups == 1 && packs() && k % kImages == 0 &&
                      first_ <= k - k / kImages && node.in(kX).shape == node.in(kOther).shape;
    if (!fits) {
      fail(Fault::kModel, "%s and %s from channel %zu on do not fit the attributes",
           node.in(kX).text().c_str(), node.in(kOther).text().c_str(), first_);
    }
    const float* const w = node.constant(kWeights, node.in(kWeights).count);
    std::vector<float> by_image(k * n);
    for (size_t m = 0; m < n; ++m)
      for (size_t c = 0; c < k; ++c)
        by_image[m * k + c % kImages * (k / kImages) + c / kImages] = w[m * k + c];
    weights_ = Arena(kernel_.pack(k, n, nullptr, 1, k, nullptr) * sizeof(float));
    kernel_.pack(k, n, by_image.data(), 1, k, weights_.floats());
  }

  Bytes weights_read() const override { return weights_.bytes(); }

  void run(const Buffers& b) const override {
    const ConvShape& s = shape_;
    const float* const images[kImages] = {b.in(kX) + first_, b.in(kOther) + first_};
    run_gemm(kernel_,
             whole_product(b, {s.pixels, s.out_channels, s.channels / kImages, kImages, images,
                               s.channels, weights_.floats(), y(b), s.y_channels, 0,
                               kernel_.count_panels(s.out_channels), epilogue(b)}),
             *b.pool);
  }

 private:
  static constexpr size_t kImages = 2;

  GemmKernel kernel_;
  size_t first_;
  Arena weights_;
};

}  // namespace

StepPtr make_interleaved_conv(const Node& node, const ConvShape& shape) {
  return std::make_unique<InterleavedConv>(node, shape);
}

}  // namespace palm
