// A depthwise convolution and the 1x1 convolution of what it gives as one step, block by block of
// some rows: what lies between the two stays in the cache of the core that made it, and threads
// share out once what they would share out twice. Sums run as in the two steps.
#include "kernels/separable_conv/separable_conv.h"

#include <algorithm>

#include "base/arena.h"
#include "kernels/activation.h"
#include "kernels/depthwise/depthwise.h"
#include "kernels/gemm/gemm.h"
#include "kernels/window.h"

namespace palm {
namespace {

using namespace separable;

std::vector<float> per_channel(const Node& node, size_t input, size_t channels) {
  const float* const values = node.constant(input, channels);
  return values ? std::vector<float>(values, values + channels) : std::vector<float>();
}

const std::vector<size_t>& kernel_shape(const Node& node) {
  return image(node.in(kDepthwiseWeights)).shape;
}

class SeparableConv : public Step {
 public:
  explicit SeparableConv(const Node& node)
      : window_(node, kernel_shape(node)[1], kernel_shape(node)[2]),
        channels_(image(node.in(kX)).shape[3]),
        outputs_last_(node.attrs.integer("outputs_last", 0) != 0),
        out_channels_(image(node.out()).shape[3]),
        x_pixel_(node.in(kX).pixel()),
        y_pixel_(node.out().pixel()),
        between_(node, kDepthwiseSlope, channels_, "depthwise_activation",
                 "depthwise_activation_params"),
        activation_(node, kSlope, out_channels_),
        depthwise_(find_depthwise(node.isa)),
        gemm_(find_gemm(node.isa)) {
    check_shapes(node);
    pack(node);
    between_bias_ = per_channel(node, kDepthwiseBias, channels_);
    bias_ = per_channel(node, kBias, out_channels_);
    panels_ = gemm_.count_panels(out_channels_);
    const size_t row = std::max<size_t>(1, out_width_ * channels_);
    block_rows_ = kBlockFloats / row / kDepthwiseRows * kDepthwiseRows;
    block_rows_ = std::min(std::max(block_rows_, kDepthwiseRows), out_height_);
  }

  bool reads(size_t i) const override {
    return i == kX || i == kResidual || (i == kWeights && outputs_last_);
  }

  // The residual is read where y is about to be written; x also for other rows of y.
  bool in_place(size_t i) const override {
    return i == kResidual && residual_channels_ == out_channels_;
  }

  size_t scratch_bytes(int threads) const override {
    return checked_product(static_cast<size_t>(threads), block_bytes());
  }

  Bytes weights_read() const override { return weights_.bytes(); }

  void run(const Buffers& b) const override {
    const size_t rows = images_ * out_height_, threads = static_cast<size_t>(b.pool->threads());
    const size_t work = out_width_ * channels_ * (window_.taps() * 2 + out_channels_);
    b.pool->parallel(rows, grain_of(work, depthwise_rows_at_once(rows, threads)),
                     [&](size_t begin, size_t end, int thread) {
                       char* const scratch = b.scratch + static_cast<size_t>(thread) * block_bytes();
                       run_rows(b, reinterpret_cast<float*>(scratch), begin, end);
                     });
  }

 private:
  // Much less than an L2 cache holds, but not so little that going from one kernel to the other and
  // back, some 80 ns, shows.
  static constexpr size_t kBlockFloats = 16 << 10;

  void check_shapes(const Node& node) {
    const std::vector<size_t>&x = node.in(kX).shape, &y = node.out().shape;
    images_ = x[0], height_ = x[1], width_ = x[2], out_height_ = y[1], out_width_ = y[2];
    const std::vector<size_t>& depthwise = kernel_shape(node);
    const std::vector<size_t>& w = image(node.in(kWeights)).shape;
    constexpr size_t kVector = 8;
    const bool is_pointwise = outputs_last_
                                  ? w[0] * w[1] == 1 && w[2] == channels_ &&
                                        w[3] == out_channels_ && out_channels_ % kVector == 0
                                  : w[0] == out_channels_ && w[1] * w[2] == 1 && w[3] == channels_;
    const bool fits = y[0] == images_ && channels_ && out_channels_ && depthwise[0] == channels_ &&
                      depthwise[3] == 1 && is_pointwise && out_height_ == window_.rows(height_) &&
                      out_width_ == window_.columns(width_);
    if (!fits) {
      fail(Fault::kModel, "%s by %s and %s into %s does not fit its attributes",
           node.in(kX).text().c_str(), node.in(kDepthwiseWeights).text().c_str(),
           node.in(kWeights).text().c_str(), node.out().text().c_str());
    }
    residual_channels_ = residual_channels(node, kResidual, out_channels_);
    if (residual_channels_) residual_pixel_ = node.in(kResidual).pixel();
  }

  void pack(const Node& node) {
    const float* const taps = node.constant(kDepthwiseWeights, channels_ * window_.taps());
    taps_ = Arena(depthwise_.pack(channels_, window_.taps(), taps, nullptr) * sizeof(float));
    depthwise_.pack(channels_, window_.taps(), taps, taps_.floats());
    const float* const w = node.constant(kWeights, node.in(kWeights).count);
    if (outputs_last_) return;
    const size_t floats = gemm_.pack(channels_, out_channels_, w, 1, channels_, nullptr);
    weights_ = Arena(floats * sizeof(float));
    gemm_.pack(channels_, out_channels_, w, 1, channels_, weights_.floats());
  }

  size_t block_bytes() const {
    return round_up(
        checked_product(checked_product(block_rows_ * out_width_, channels_), sizeof(float)));
  }

  // Rows [begin, end) of all images' rows.
  void run_rows(const Buffers& b, float* between, size_t begin, size_t end) const {
    Epilogue e = activation_.epilogue(bias_.empty() ? nullptr : bias_.data());
    if (residual_channels_) {
      e.residual = b.in(kResidual);
      e.residual_stride = residual_pixel_;
      e.residual_channels = residual_channels_;
    }
    while (begin < end) {
      const size_t row = begin % out_height_;
      const size_t rows = std::min({block_rows_, end - begin, out_height_ - row});
      const float* const x = b.in(kX) + begin / out_height_ * height_ * width_ * x_pixel_;
      // As if the block were all of an image, whose first windows begin where its own do.
      const Depthwise d{height_,
                        width_,
                        rows,
                        out_width_,
                        channels_,
                        window_.kernel_height,
                        window_.kernel_width,
                        window_.stride_y,
                        window_.stride_x,
                        window_.dilation_y,
                        window_.dilation_x,
                        static_cast<ptrdiff_t>(window_.top) -
                            static_cast<ptrdiff_t>(row * window_.stride_y),
                        static_cast<ptrdiff_t>(window_.left),
                        x,
                        x_pixel_,
                        taps_.floats(),
                        between,
                        channels_,
                        between_.epilogue(between_bias_.empty() ? nullptr : between_bias_.data())};
      depthwise_.run(d, 0, rows, 0, channels_);
      const size_t pixel = begin * out_width_;
      Gemm gemm{rows * out_width_,
                out_channels_,
                channels_,
                1,
                &between,
                channels_,
                weights_.floats(),
                b.out() + pixel * y_pixel_,
                y_pixel_,
                0,
                panels_,
                e.from_pixel(pixel)};
      if (outputs_last_) {
        gemm.b = b.in(kWeights);
        gemm.ldb = out_channels_;
      }
      begin += rows;
      if (begin == end) gemm.next = b.next;
      gemm_.run(gemm);
    }
  }

  Window window_;
  size_t channels_;
  bool outputs_last_;
  size_t out_channels_, x_pixel_, y_pixel_;
  Activation between_, activation_;
  DepthwiseKernel depthwise_;
  GemmKernel gemm_;
  size_t images_ = 0, height_ = 0, width_ = 0, out_height_ = 0, out_width_ = 0;
  size_t residual_channels_ = 0, residual_pixel_ = 0, panels_ = 0, block_rows_ = 0;
  std::vector<float> between_bias_, bias_;
  Arena taps_, weights_;
};

}  // namespace

PALM_OPERANDS(separable_conv, separable::kOperands)
StepPtr make_separable_conv(const Node& node) { return std::make_unique<SeparableConv>(node); }

}  // namespace palm
