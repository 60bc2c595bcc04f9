// y[o][k][i] = sum over t of weight[k][t] * x[o][index[k][t]][i]: any resizing along one axis.
#include "kernels/axis.h"

namespace palm {
namespace {

constexpr Operands kOperands{"x indices weights", "y"};
constexpr size_t kX = kOperands.input("x"), kIndices = kOperands.input("indices"),
                 kWeights = kOperands.input("weights");

class Resample : public Step {
 public:
  explicit Resample(const Node& node) : axis_(node), taps_(node.attrs.size("taps", 1)) {
    const Tensor& index = node.in(kIndices, DType::kInt32);
    axis_.check(node.in(kX), axis_.size);
    if (!index.constant) fail(Fault::kUnsupported, "input 1: expected a constant");
    out_ = index.count / taps_;
    if (index.count % taps_) fail(Fault::kModel, "%zu indices of %zu", index.count, taps_);
    axis_.check(node.out(), out_);
    const float* const weights = node.constant(kWeights, index.count);
    if (!weights) fail(Fault::kModel, "input 2 is missing");
    weights_.assign(weights, weights + index.count);
    for (size_t i = 0; i < index.count; ++i) {
      const int32_t at = static_cast<const int32_t*>(index.constant)[i];
      if (at < 0 || static_cast<size_t>(at) >= axis_.size)
        fail(Fault::kModel, "index %d of %zu", at, axis_.size);
      indices_.push_back(static_cast<size_t>(at));
    }
  }

  bool reads(size_t i) const override { return i == kX; }

  void run(const Buffers& b) const override {
    const size_t n = axis_.inner;
    b.pool->parallel(axis_.outer * out_, grain_of(n * taps_ * kWorkOfTouching),
                     [&](size_t begin, size_t end, int) {
                       for (size_t row = begin; row < end; ++row) {
                         const size_t k = row % out_;
                         const float* const x = b.in(kX) + row / out_ * axis_.size * n;
                         float* const y = b.out() + row * n;
                         for (size_t t = 0; t < taps_; ++t) {
                           const float weight = weights_[k * taps_ + t];
                           const float* const from = x + indices_[k * taps_ + t] * n;
                           if (t == 0)
                             for (size_t i = 0; i < n; ++i) y[i] = from[i] * weight;
                           else
                             for (size_t i = 0; i < n; ++i) y[i] += from[i] * weight;
                         }
                       }
                     });
  }

 private:
  Axis axis_;
  size_t taps_, out_;
  std::vector<size_t> indices_;
  std::vector<float> weights_;
};

}  // namespace

PALM_OPERANDS(resample, kOperands)
StepPtr make_resample(const Node& node) { return std::make_unique<Resample>(node); }

}  // namespace palm
