// Local response normalization of x[pixels, channels]: y = x / (bias + alpha / size * s)^beta, s
// being the sum of squares over `size` channels round about.
#include <algorithm>
#include <cmath>

#include "base/arena.h"
#include "base/step.h"

namespace palm {
namespace {

class LocalResponse : public Step {
 public:
  explicit LocalResponse(const Node& node)
      : channels_(node.attrs.size("channels", 1)),
        size_(node.attrs.size("size", 1)),
        alpha_(node.attrs.number("alpha")),
        beta_(node.attrs.number("beta")),
        bias_(node.attrs.number("bias")) {
    const Tensor &x = node.in(0), &y = node.out();
    if (x.count % channels_ || y.count != x.count)
      fail(Fault::kModel, "%s into %s", x.text().c_str(), y.text().c_str());
    pixels_ = x.count / channels_;
  }

  size_t scratch_bytes(int threads) const override {
    return checked_product(static_cast<size_t>(threads), sums_bytes());
  }

  void run(const Buffers& b) const override {
    const size_t before = (size_ - 1) / 2, after = size_ - 1 - before;
    b.pool->parallel(pixels_, grain_of(channels_ * kWorkOfTouching * 4),
                     [&](size_t begin, size_t end, int thread) {
                       float* const squares = reinterpret_cast<float*>(
                           b.scratch + static_cast<size_t>(thread) * sums_bytes());
                       for (size_t p = begin; p < end; ++p) {
                         const float* const x = b.in(0) + p * channels_;
                         float* const y = b.out() + p * channels_;
                         for (size_t c = 0; c < channels_; ++c) squares[c] = x[c] * x[c];
                         for (size_t c = 0; c < channels_; ++c) {
                           const size_t first = c > before ? c - before : 0;
                           const size_t last =
                               std::min(channels_ - 1, after < channels_ ? c + after : channels_);
                           float sum = 0;
                           for (size_t k = first; k <= last; ++k) sum += squares[k];
                           y[c] = x[c] / power(bias_ + alpha_ / static_cast<float>(size_) * sum);
                         }
                       }
                     });
  }

 private:
  size_t sums_bytes() const { return round_up(channels_ * sizeof(float)); }

  float power(float v) const {
    if (beta_ == 0.75f) return std::sqrt(v) * std::sqrt(std::sqrt(v));
    return std::pow(v, beta_);
  }

  size_t pixels_, channels_, size_;
  float alpha_, beta_, bias_;
};

}  // namespace

PALM_OPERANDS(local_response, "x", "y")
StepPtr make_local_response(const Node& node) { return std::make_unique<LocalResponse>(node); }

}  // namespace palm
