// Transposed convolution. Where windows do not overlap, a GEMM for each row of x gives whole
// windows of y. Otherwise each row of y is made by itself: for each row of x and of the kernel that
// meet there, a GEMM gives what every pixel of x adds to kernel_width pixels of y.
#include <algorithm>
#include <cstring>

#include "base/arena.h"
#include "kernels/activation.h"
#include "kernels/gemm/gemm.h"
#include "kernels/window.h"

namespace palm {
namespace {

enum Input { kX, kWeights, kBias, kSlope };

class ConvTranspose : public Step {
 public:
  explicit ConvTranspose(const Node& node)
      : window_(node, image(node.in(kWeights)).shape[1], node.in(kWeights).shape[2]),
        kernel_(find_gemm(node.isa)),
        activation_(node, kSlope, image(node.out()).shape[3]) {
    const Tensor &x = image(node.in(kX)), &w = node.in(kWeights), &y = node.out();
    images_ = x.shape[0], height_ = x.shape[1], width_ = x.shape[2], channels_ = x.shape[3];
    out_height_ = y.shape[1], out_width_ = y.shape[2], out_channels_ = y.shape[3];
    groups_ = size_attr({node.attrs.integer("group", 1)}, 0, "group", 1);
    const Ints extra = node.attrs.integers("output_padding", Ints{0, 0});
    const bool fits =
        y.shape[0] == images_ && channels_ && out_channels_ && w.shape[0] == channels_ &&
        channels_ % groups_ == 0 && out_channels_ % groups_ == 0 &&
        w.shape[3] == out_channels_ / groups_ && width_ && height_ &&
        out_height_ + window_.top + window_.bottom ==
            (height_ - 1) * window_.stride_y + (window_.kernel_height - 1) * window_.dilation_y +
                1 + size_attr(extra, 0, "output_padding", 0) &&
        out_width_ + window_.left + window_.right ==
            (width_ - 1) * window_.stride_x + (window_.kernel_width - 1) * window_.dilation_x + 1 +
                size_attr(extra, 1, "output_padding", 0);
    if (!fits) {
      fail(Fault::kModel, "%s by %s into %s does not fit its attributes", x.text().c_str(),
           w.text().c_str(), y.text().c_str());
    }
    if (const float* bias = node.constant(kBias, out_channels_))
      bias_.assign(bias, bias + out_channels_);
    disjoint_ = window_.kernel_height == window_.stride_y &&
                window_.kernel_width == window_.stride_x && window_.dilation_y == 1 &&
                window_.dilation_x == 1 && out_height_ == height_ * window_.stride_y &&
                out_width_ == width_ * window_.stride_x && window_.top == 0 && window_.left == 0 &&
                groups_ == 1;
    pack(node.constant(kWeights, w.count));
    if (!disjoint_) return;
    // A row of the GEMM's result is all the taps of a window.
    const std::vector<float> once = bias_;
    for (size_t t = 1; t < window_.taps(); ++t) bias_.insert(bias_.end(), once.begin(), once.end());
    activation_.repeat(window_.taps());
  }

  size_t scratch_bytes(int threads) const override {
    return static_cast<size_t>(threads) * thread_bytes();
  }

  void run(const Buffers& b) const override { disjoint_ ? run_disjoint(b) : run_overlapping(b); }

 private:
  void run_disjoint(const Buffers& b) const {
    const size_t row_floats = out_width_ * out_channels_;
    const size_t run_bytes = window_.kernel_width * out_channels_ * sizeof(float);
    Gemm gemm = gemm_of(0, 0);
    gemm.epilogue = activation_.epilogue(bias_.empty() ? nullptr : bias_.data());
    b.pool->parallel(images_ * height_, grain_of(width_ * part_columns() * channels_),
                     [&](size_t begin, size_t end, int thread) {
                       Gemm g = gemm;
                       g.c = thread_scratch(b, thread);
                       for (size_t row = begin; row < end; ++row) {
                         const float* const a = b.in(kX) + row * width_ * channels_;
                         g.a = &a;
                         kernel_.run(g);
                         char* y =
                             reinterpret_cast<char*>(b.out() + row * window_.stride_y * row_floats);
                         for (size_t ky = 0; ky < window_.kernel_height; ++ky) {
                           const char* from = reinterpret_cast<const char*>(g.c) + ky * run_bytes;
                           const size_t step = run_bytes * window_.kernel_height;
                           for (size_t ix = 0; ix < width_; ++ix, y += run_bytes, from += step) {
                             if (run_bytes == 8) std::memcpy(y, from, 8);
                             else std::memcpy(y, from, run_bytes);
                           }
                         }
                       }
                     });
  }

  void run_overlapping(const Buffers& b) const {
    const size_t row_floats = out_width_ * out_channels_;
    const Epilogue e = activation_.epilogue(bias_.empty() ? nullptr : bias_.data());
    const size_t work = width_ * part_columns() * channels_;
    b.pool->parallel(
        images_ * out_height_, grain_of(work), [&](size_t begin, size_t end, int thread) {
          float* const part = thread_scratch(b, thread);
          for (size_t row = begin; row < end; ++row) {
            float* const y = b.out() + row * row_floats;
            fill_bias(e.bias, y);
            for (size_t ky = 0; ky < window_.kernel_height; ++ky) {
              const size_t from = row % out_height_ + window_.top - ky * window_.dilation_y;
              if (from % window_.stride_y || from / window_.stride_y >= height_) continue;
              const size_t image_row = row / out_height_ * height_ + from / window_.stride_y;
              for (size_t g = 0; g < groups_; ++g) add(b.in(kX), image_row, g, ky, part, y);
            }
            finish(e, y);
          }
        });
  }

  size_t group_out() const { return out_channels_ / groups_; }
  // The rows of the kernel that one GEMM makes, and the columns that this gives.
  size_t part_rows() const { return disjoint_ ? window_.kernel_height : 1; }
  size_t part_columns() const { return part_rows() * window_.kernel_width * group_out(); }
  float* thread_scratch(const Buffers& b, int thread) const {
    return reinterpret_cast<float*>(b.scratch + static_cast<size_t>(thread) * thread_bytes());
  }
  size_t thread_bytes() const {
    return round_up(checked_product(checked_product(width_, part_columns()), sizeof(float)));
  }

  // One set of panels for each group and part of the kernel: k = channels, n = part_columns.
  void pack(const float* w) {
    const size_t depth = channels_ / groups_, n = part_columns();
    const size_t row_stride = window_.taps() * group_out();
    packed_floats_ = kernel_.pack(depth, n, nullptr, row_stride, 1, nullptr);
    weights_ = Arena(checked_product(packed_floats_, groups_ * parts()) * sizeof(float));
    for (size_t g = 0; g < groups_; ++g) {
      for (size_t p = 0; p < parts(); ++p)
        kernel_.pack(depth, n, w + g * depth * row_stride + p * n, row_stride, 1, packed(g, p));
    }
  }

  size_t parts() const { return window_.kernel_height / part_rows(); }

  float* packed(size_t group, size_t part) const {
    return weights_.floats() + (group * parts() + part) * packed_floats_;
  }

  // For a row of x, without a, c and epilogue.
  Gemm gemm_of(size_t group, size_t part) const {
    Gemm gemm{};
    gemm.m = width_, gemm.n = gemm.ldc = part_columns(), gemm.k = channels_ / groups_;
    gemm.segments = 1, gemm.lda = channels_;
    gemm.b = packed(group, part);
    gemm.last_panel = kernel_.count_panels(gemm.n);
    return gemm;
  }

  void fill_bias(const float* bias, float* y) const {
    for (size_t ox = 0; ox < out_width_; ++ox)
      for (size_t c = 0; c < out_channels_; ++c) *y++ = bias ? bias[c] : 0.f;
  }

  void add(const float* x, size_t image_row, size_t group, size_t ky, float* part, float* y) const {
    const size_t depth = channels_ / groups_, n = group_out();
    const float* const a = x + image_row * width_ * channels_ + group * depth;
    Gemm gemm = gemm_of(group, ky);
    gemm.a = &a, gemm.c = part;
    kernel_.run(gemm);
    for (size_t ix = 0; ix < width_; ++ix) {
      for (size_t kx = 0; kx < window_.kernel_width; ++kx) {
        // Wraps round to a large number left of the image.
        const size_t ox = ix * window_.stride_x + kx * window_.dilation_x - window_.left;
        if (ox >= out_width_) continue;
        const float* const from = part + (ix * window_.kernel_width + kx) * n;
        float* const to = y + ox * out_channels_ + group * n;
        for (size_t c = 0; c < n; ++c) to[c] += from[c];
      }
    }
  }

  void finish(const Epilogue& e, float* y) const {
    for (size_t i = 0; i < out_width_ * out_channels_; ++i) {
      const float v = y[i];
      if (e.slope) {
        y[i] = v < 0 ? v * e.slope[i % out_channels_] : v;
      } else {
        const float raised = e.low > v ? e.low : v;
        y[i] = e.high < raised ? e.high : raised;
      }
    }
    if (e.post) e.post(e.post_data, 1, out_width_ * out_channels_, y, 0);
  }

  Window window_;
  GemmKernel kernel_;
  Activation activation_;
  size_t images_, height_, width_, channels_, out_height_, out_width_, out_channels_, groups_;
  size_t packed_floats_;
  bool disjoint_;
  std::vector<float> bias_;
  Arena weights_;
};

}  // namespace

StepPtr make_conv_transpose(const Node& node) { return std::make_unique<ConvTranspose>(node); }

}  // namespace palm
