// The greatest of each window, and where it lies if the images are seen as [n, c, h, w], counted
// flat; the first of several, and the first NaN of all. With `in_window` as MediaPipe has it: the
// place is a float, row * width of the window + column + 0.1, and no NaN, nor anything below the
// lowest finite number, is the greatest.
#include <cfloat>
#include <cmath>

#include "kernels/window.h"

namespace palm {
namespace {

class MaxPoolIndices : public Step {
 public:
  explicit MaxPoolIndices(const Node& node)
      : window_(node, size_attr(node.attrs.integers("kernel", Ints{1, 1}), 0, "kernel", 1),
                size_attr(node.attrs.integers("kernel", Ints{1, 1}), 1, "kernel", 1)) {
    const Tensor &x = image(node.in(0)), &y = image(node.out());
    in_window_ = node.attrs.integer("in_window", 0) != 0;
    const Tensor& indices = node.out(1, in_window_ ? DType::kFloat32 : DType::kInt64);
    images_ = x.shape[0], height_ = x.shape[1], width_ = x.shape[2], channels_ = x.shape[3];
    out_height_ = y.shape[1], out_width_ = y.shape[2];
    const auto fits = [](size_t out, size_t floor) { return out == floor || out == floor + 1; };
    if (y.shape[0] != images_ || y.shape[3] != channels_ || indices.shape != y.shape ||
        !fits(out_height_, window_.rows(height_)) || !fits(out_width_, window_.columns(width_))) {
      fail(Fault::kModel, "%s into %s does not fit its attributes", x.text().c_str(),
           y.text().c_str());
    }
  }

  void run(const Buffers& b) const override {
    const size_t work = out_width_ * channels_ * window_.taps() * kWorkOfTouching;
    b.pool->parallel(images_ * out_height_, grain_of(work), [&](size_t begin, size_t end, int) {
      for (size_t row = begin; row < end; ++row)
        for (size_t ox = 0; ox < out_width_; ++ox) pixel(b, row, ox);
    });
  }

 private:
  void pixel(const Buffers& b, size_t row, size_t ox) const {
    const size_t at = (row * out_width_ + ox) * channels_;
    float* const y = b.out() + at;
    if (in_window_) {
      float* const places = b.out(1) + at;
      for (size_t c = 0; c < channels_; ++c) y[c] = -FLT_MAX, places[c] = kPlace;
      each_tap(b, row, ox, [&](const float* x, size_t tap, size_t) {
        const float place = static_cast<float>(tap) + kPlace;
        for (size_t c = 0; c < channels_; ++c) {
          const bool greater = x[c] > y[c];
          y[c] = greater ? x[c] : y[c];
          places[c] = greater ? place : places[c];
        }
      });
    } else {
      int64_t* const places = static_cast<int64_t*>(b.outputs[1]) + at;
      for (size_t c = 0; c < channels_; ++c) y[c] = -INFINITY, places[c] = -1;
      const size_t plane = height_ * width_, first = row / out_height_ * channels_;
      each_tap(b, row, ox, [&](const float* x, size_t, size_t pixel) {
        for (size_t c = 0; c < channels_; ++c) {
          if (places[c] >= 0 && !(x[c] > y[c]) && !(x[c] != x[c] && y[c] == y[c])) continue;
          y[c] = x[c];
          places[c] = static_cast<int64_t>((first + c) * plane + pixel);
        }
      });
    }
  }

  // Calls f(channels, tap, pixel) for what of the window lies in the image.
  template <class Function>
  void each_tap(const Buffers& b, size_t row, size_t ox, Function f) const {
    const Window& w = window_;
    const size_t n = row / out_height_, oy = row % out_height_;
    const float* const x = b.in(0) + n * height_ * width_ * channels_;
    for (size_t ky = 0; ky < w.kernel_height; ++ky) {
      const size_t iy = oy * w.stride_y + ky * w.dilation_y - w.top;
      for (size_t kx = 0; kx < w.kernel_width; ++kx) {
        const size_t ix = ox * w.stride_x + kx * w.dilation_x - w.left;
        if (iy >= height_ || ix >= width_) continue;
        const size_t pixel = iy * width_ + ix;
        f(x + pixel * channels_, ky * w.kernel_width + kx, pixel);
      }
    }
  }

  static constexpr float kPlace = 0.1f;

  Window window_;
  bool in_window_;
  size_t images_, height_, width_, channels_, out_height_, out_width_;
};

}  // namespace

StepPtr make_max_pool_indices(const Node& node) { return std::make_unique<MaxPoolIndices>(node); }

}  // namespace palm
