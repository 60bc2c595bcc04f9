// MediaPipe's MaxUnpooling2D: zeros, and each element of x in its window at the place that its
// index names, row * width of the window + column, cut off to a whole number. What lies outside is
// dropped; of several that meet the last one stays.
#include <algorithm>
#include <cmath>

#include "kernels/window.h"

namespace palm {
namespace {

class MaxUnpool : public Step {
 public:
  explicit MaxUnpool(const Node& node) {
    const Tensor &x = image(node.in(0)), &indices = node.in(1), &y = image(node.out());
    const Ints kernel = node.attrs.integers("kernel", Ints{1, 1});
    const Ints strides = node.attrs.integers("strides", Ints{1, 1});
    const Ints pads = node.attrs.integers("begins", Ints{0, 0});
    images_ = x.shape[0], height_ = x.shape[1], width_ = x.shape[2], channels_ = x.shape[3];
    out_height_ = y.shape[1], out_width_ = y.shape[2];
    kernel_width_ = static_cast<int64_t>(size_attr(kernel, 1, "kernel", 1));
    for (size_t i = 0; i < 2; ++i) {
      stride_[i] = static_cast<int64_t>(size_attr(strides, i, "strides", 1));
      begin_[i] = static_cast<int64_t>(size_attr(pads, i, "begins", 0));
    }
    if (indices.shape != x.shape || y.shape[0] != images_ || y.shape[3] != channels_) {
      fail(Fault::kModel, "%s at %s into %s", x.text().c_str(), indices.text().c_str(),
           y.text().c_str());
    }
  }

  void run(const Buffers& b) const override {
    const size_t in = height_ * width_ * channels_, out = out_height_ * out_width_ * channels_;
    b.pool->parallel(images_, grain_of(out * kWorkOfTouching), [&](size_t begin, size_t end, int) {
      for (size_t n = begin; n < end; ++n) {
        float* const y = b.out() + n * out;
        std::fill_n(y, out, 0.f);
        for (size_t i = 0; i < height_; ++i)
          for (size_t j = 0; j < width_; ++j) {
            const size_t at = n * in + (i * width_ + j) * channels_;
            place(i, j, b.in(0) + at, b.in(1) + at, y);
          }
      }
    });
  }

 private:
  void place(size_t i, size_t j, const float* x, const float* indices, float* y) const {
    constexpr float kMost = 1e9f;
    const int64_t top = static_cast<int64_t>(i) * stride_[0] - begin_[0];
    const int64_t left = static_cast<int64_t>(j) * stride_[1] - begin_[1];
    for (size_t c = 0; c < channels_; ++c) {
      if (std::fabs(indices[c]) > kMost) continue;
      const int64_t index = indices[c] == indices[c] ? static_cast<int64_t>(indices[c]) : 0;
      const int64_t row = index / kernel_width_, down = top + row;
      const int64_t right = left + index - row * kernel_width_;
      if (down < 0 || right < 0 || down >= static_cast<int64_t>(out_height_) ||
          right >= static_cast<int64_t>(out_width_))
        continue;
      const size_t pixel = static_cast<size_t>(down) * out_width_ + static_cast<size_t>(right);
      y[pixel * channels_ + c] = x[c];
    }
  }

  size_t images_, height_, width_, channels_, out_height_, out_width_;
  int64_t kernel_width_, stride_[2], begin_[2];
};

}  // namespace

StepPtr make_max_unpool(const Node& node) { return std::make_unique<MaxUnpool>(node); }

}  // namespace palm
