// Convolution over three dims: x[n, d, h, w, c], already padded, by constant w[m, kd, kh, kw,
// c / group] -> y[n, od, oh, ow, m] = activation(sum + bias). Each row of y is one product, its
// segments being the taps.
#include "base/arena.h"
#include "kernels/activation.h"
#include "kernels/gemm/gemm.h"
#include "kernels/window.h"

namespace palm {
namespace {

constexpr Operands kOperands{"image weights bias slope", "y"};
constexpr size_t kX = kOperands.input("image"), kWeight = kOperands.input("weights"),
                 kBias = kOperands.input("bias"), kSlope = kOperands.input("slope");

constexpr size_t kDims = 3;

class VolumeConv : public Step {
 public:
  explicit VolumeConv(const Node& node)
      : kernel_(find_gemm(node.isa)),
        activation_(node, kSlope, rank5(node.out()).shape[4]),
        group_(node.attrs.size("group", 1)) {
    const Tensor &x = rank5(node.in(kX)), &w = rank5(node.in(kWeight)), &y = rank5(node.out());
    const Ints strides = node.attrs.integers("strides", Ints{1, 1, 1});
    const Ints dilations = node.attrs.integers("dilations", Ints{1, 1, 1});
    images_ = x.shape[0], channels_ = x.shape[4], outputs_ = y.shape[4];
    for (size_t i = 0; i < kDims; ++i) {
      in_[i] = x.shape[i + 1], out_[i] = y.shape[i + 1], taps_[i] = w.shape[i + 1];
      stride_[i] = size_attr(strides, i, "strides", 1);
      dilation_[i] = size_attr(dilations, i, "dilations", 1);
      if (taps_[i] == 0) fail(Fault::kModel, "the kernel is empty");
      const size_t reach = checked_product(taps_[i] - 1, dilation_[i]) + 1;
      const size_t last = out_[i] ? checked_product(out_[i] - 1, stride_[i]) : 0;
      if (in_[i] < reach || last > in_[i] - reach)
        fail(Fault::kModel, "%s into %s", x.text().c_str(), y.text().c_str());
    }
    if (y.shape[0] != images_ || w.shape[0] != outputs_ || channels_ % group_ ||
        outputs_ % group_ || w.shape[4] != channels_ / group_ || channels_ == 0 || outputs_ == 0) {
      fail(Fault::kModel, "%s by %s into %s", x.text().c_str(), w.text().c_str(), y.text().c_str());
    }
    if (const float* bias = node.constant(kBias, outputs_)) bias_.assign(bias, bias + outputs_);
    const float* const weights = node.constant(kWeight, w.count);
    const size_t k = w.count / outputs_, n = outputs_ / group_;
    packed_floats_ = kernel_.pack(k, n, nullptr, 1, k, nullptr);
    packed_floats_ = round_up(packed_floats_ * sizeof(float)) / sizeof(float);
    packed_ = Arena(checked_product(checked_product(packed_floats_, group_), sizeof(float)));
    for (size_t g = 0; g < group_; ++g)
      kernel_.pack(k, n, weights + g * n * k, 1, k, packed_.floats() + g * packed_floats_);
    panels_ = kernel_.count_panels(n);
  }

  bool reads(size_t i) const override { return i == kX; }

  size_t scratch_bytes(int threads) const override {
    return checked_product(checked_product(taps(), sizeof(float*)), static_cast<size_t>(threads));
  }

  void run(const Buffers& b) const override {
    const size_t rows = images_ * out_[0] * out_[1];
    const size_t work = out_[2] * taps() * channels_ * outputs_ / group_;
    b.pool->parallel(rows, grain_of(work), [&](size_t begin, size_t end, int thread) {
      const float** const from =
          reinterpret_cast<const float**>(b.scratch) + static_cast<size_t>(thread) * taps();
      for (size_t row = begin; row < end; ++row)
        for (size_t g = 0; g < group_; ++g) product(b, row, g, from);
    });
  }

 private:
  static const Tensor& rank5(const Tensor& t) {
    if (t.rank() != 5) fail(Fault::kModel, "expected 5 dims, got %s", t.text().c_str());
    return t;
  }

  size_t taps() const { return taps_[0] * taps_[1] * taps_[2]; }

  void product(const Buffers& b, size_t row, size_t g, const float** from) const {
    const size_t k = channels_ / group_, n = outputs_ / group_;
    const size_t image = row / (out_[0] * out_[1]);
    const size_t z = row / out_[1] % out_[0] * stride_[0], y = row % out_[1] * stride_[1];
    size_t count = 0;
    for (size_t i = 0; i < taps_[0]; ++i) {
      for (size_t j = 0; j < taps_[1]; ++j) {
        const size_t line = (image * in_[0] + z + i * dilation_[0]) * in_[1] + y + j * dilation_[1];
        for (size_t l = 0; l < taps_[2]; ++l)
          from[count++] = b.in(kX) + (line * in_[2] + l * dilation_[2]) * channels_ + g * k;
      }
    }
    const Epilogue e =
        activation_.epilogue(bias_.empty() ? nullptr : bias_.data()).from_channel(g * n);
    kernel_.run({out_[2], n, k, count, from, stride_[2] * channels_,
                 packed_.floats() + g * packed_floats_, b.out() + row * out_[2] * outputs_ + g * n,
                 outputs_, 0, panels_, e});
  }

  GemmKernel kernel_;
  Activation activation_;
  size_t group_, images_, channels_, outputs_;
  size_t in_[kDims], out_[kDims], taps_[kDims], stride_[kDims], dilation_[kDims];
  size_t packed_floats_, panels_;
  std::vector<float> bias_;
  Arena packed_;
};

}  // namespace

PALM_OPERANDS(volume_conv, kOperands)
StepPtr make_volume_conv(const Node& node) { return std::make_unique<VolumeConv>(node); }

}  // namespace palm
