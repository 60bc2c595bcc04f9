// Convolution: 1x1 as a GEMM that reads x in place, depthwise by its own kernel, wide images as a
// GEMM for each row, the rest as a GEMM of patches gathered block by block.
#include <algorithm>
#include <cstring>

#include "base/arena.h"
#include "kernels/activation.h"
#include "kernels/depthwise/depthwise.h"
#include "kernels/gemm/gemm.h"
#include "kernels/window.h"

namespace palm {
namespace {

enum Input { kX, kWeights, kBias, kSlope, kResidual };

// The sizes of a convolution, checked against the node's tensors.
struct Shape : Window {
  explicit Shape(const Node& node)
      : Window(node, image(node.in(kWeights)).shape[1], node.in(kWeights).shape[2]) {
    const Tensor &x = image(node.in(kX)), &w = node.in(kWeights), &y = image(node.out());
    images = x.shape[0], height = x.shape[1], width = x.shape[2], channels = x.shape[3];
    out_height = y.shape[1], out_width = y.shape[2], out_channels = y.shape[3];
    groups = size_attr({node.attrs.integer("group", 1)}, 0, "group", 1);
    const bool fits = y.shape[0] == images && channels && out_channels &&
                      w.shape[0] == out_channels && channels % groups == 0 &&
                      out_channels % groups == 0 && w.shape[3] == channels / groups &&
                      out_height == rows(height) && out_width == columns(width);
    if (!fits) {
      fail(Fault::kModel, "%s by %s into %s does not fit its attributes", x.text().c_str(),
           w.text().c_str(), y.text().c_str());
    }
    group_channels = channels / groups;
    group_out = out_channels / groups;
    pixels = images * out_height * out_width;
  }

  size_t images, height, width, channels, out_height, out_width, out_channels;
  size_t groups, group_channels, group_out, pixels;
};

// What all ways of convolving share.
class Conv : public Step {
 public:
  Conv(const Node& node, const Shape& shape)
      : shape_(shape), activation_(node, kSlope, shape.out_channels) {
    const float* bias = node.constant(kBias, shape.out_channels);
    if (bias) bias_.assign(bias, bias + shape.out_channels);
    if (!node.input(kResidual)) return;
    const Tensor& z = node.in(kResidual);
    const Tensor& y = node.out();
    if (z.rank() != 4 || !std::equal(z.shape.begin(), z.shape.end() - 1, y.shape.begin()) ||
        z.shape[3] > y.shape[3]) {
      fail(Fault::kModel, "residual %s for %s", z.text().c_str(), y.text().c_str());
    }
    residual_channels_ = z.shape[3];
  }

  // The residual is read where y is about to be written.
  bool in_place(size_t i) const override {
    return i == kResidual && residual_channels_ == shape_.out_channels;
  }

 protected:
  Epilogue epilogue(const Buffers& b) const {
    Epilogue e = activation_.epilogue(bias_.empty() ? nullptr : bias_.data());
    if (residual_channels_) {
      e.residual = b.in(kResidual);
      e.residual_stride = e.residual_channels = residual_channels_;
    }
    return e;
  }

  Shape shape_;

 private:
  Activation activation_;
  std::vector<float> bias_;
  size_t residual_channels_ = 0;
};

class DepthwiseConv : public Conv {
 public:
  DepthwiseConv(const Node& node, const Shape& shape)
      : Conv(node, shape), kernel_(find_depthwise(node.isa)) {
    const float* w = node.constant(kWeights, node.in(kWeights).count);
    const size_t floats = kernel_.pack(shape.out_channels, shape.taps(), w, nullptr);
    weights_ = Arena(floats * sizeof(float));
    kernel_.pack(shape.out_channels, shape.taps(), w, weights_.floats());
  }

  // With more outputs than inputs the image is first repeated that often, channel by channel.
  size_t scratch_bytes(int) const override {
    if (shape_.group_out == 1) return 0;
    return checked_product(checked_product(shape_.images * shape_.height * shape_.width,
                                           shape_.out_channels),
                           sizeof(float));
  }

  void run(const Buffers& b) const override {
    const Shape& s = shape_;
    const float* x = b.in(kX);
    if (s.group_out > 1) {
      float* const repeated = reinterpret_cast<float*>(b.scratch);
      b.pool->parallel(s.images * s.height * s.width, grain_of(s.out_channels * kWorkOfTouching), [&](size_t begin, size_t end, int) {
        float* to = repeated + begin * s.out_channels;
        for (size_t i = begin * s.channels; i < end * s.channels; ++i)
          for (size_t j = 0; j < s.group_out; ++j) *to++ = x[i];
      });
      x = repeated;
    }
    const Depthwise d{s.height, s.width, s.out_height, s.out_width, s.out_channels,
                      s.kernel_height, s.kernel_width, s.stride_y, s.stride_x,
                      s.dilation_y, s.dilation_x, static_cast<ptrdiff_t>(s.top),
                      static_cast<ptrdiff_t>(s.left), x, weights_.floats(), b.out(), epilogue(b)};
    constexpr size_t kTileRows = 4;
    const size_t work = s.out_width * s.out_channels * s.taps() * 2;
    b.pool->parallel(s.images * s.out_height, grain_of(work, kTileRows),
                     [&](size_t begin, size_t end, int) { kernel_.run(d, begin, end); });
  }

 private:
  DepthwiseKernel kernel_;
  Arena weights_;
};

class GemmConv : public Conv {
 public:
  GemmConv(const Node& node, const Shape& shape)
      : Conv(node, shape), kernel_(find_gemm(node.isa)), depth_(shape.taps() * shape.group_channels) {
    const float* w = node.constant(kWeights, node.in(kWeights).count);
    group_floats_ = kernel_.pack(depth_, shape.group_out, nullptr, 1, depth_, nullptr);
    weights_ = Arena(checked_product(group_floats_, shape.groups) * sizeof(float));
    for (size_t g = 0; g < shape.groups; ++g) {
      kernel_.pack(depth_, shape.group_out, w + g * shape.group_out * depth_, 1, depth_,
                   weights_.floats() + g * group_floats_);
    }
    panels_ = kernel_.count_panels(shape.group_out);
    in_place_ = shape.taps() == 1 && shape.stride_x == 1 && shape.stride_y == 1 && shape.top == 0 &&
                shape.left == 0 && shape.out_height == shape.height &&
                shape.out_width == shape.width;
    constexpr size_t kBlockFloats = 64 << 10;
    block_ = std::max<size_t>(kLeastBlock, kBlockFloats / (depth_ * shape.groups));
    block_ = std::max<size_t>(1, std::min(block_, shape.pixels));
  }

  size_t scratch_bytes(int threads) const override {
    return in_place_ ? 0 : static_cast<size_t>(threads) * block_bytes();
  }

  void run(const Buffers& b) const override {
    const Epilogue e = epilogue(b);
    constexpr size_t kTileRows = 16;
    const size_t work = depth_ * shape_.out_channels;
    if (in_place_) {
      if (shape_.pixels < kTileRows * 4) {
        b.pool->parallel(panels_, grain_of(shape_.pixels * work / panels_), [&](size_t begin, size_t end, int) {
          multiply(b, e, b.in(kX), shape_.channels, 0, shape_.pixels, begin, end);
        });
      } else {
        b.pool->parallel(shape_.pixels, grain_of(work, kTileRows), [&](size_t begin, size_t end, int) {
          multiply(b, e, b.in(kX) + begin * shape_.channels, shape_.channels, begin, end, 0, panels_);
        });
      }
      return;
    }
    b.pool->parallel(shape_.pixels, grain_of(work, kLeastBlock), [&](size_t begin, size_t end, int thread) {
      float* const patches =
          reinterpret_cast<float*>(b.scratch + static_cast<size_t>(thread) * block_bytes());
      for (size_t i = begin; i < end; i += block_) {
        const size_t last = std::min(end, i + block_);
        gather(b.in(kX), patches, i, last);
        multiply(b, e, patches, depth_ * shape_.groups, i, last, 0, panels_);
      }
    });
  }

 private:
  static constexpr size_t kLeastBlock = 48;

  size_t block_bytes() const {
    return round_up(checked_product(checked_product(block_, depth_ * shape_.groups), sizeof(float)));
  }

  // Pixels [begin, end) from their patches, `a` being the first's.
  void multiply(const Buffers& b, const Epilogue& e, const float* a, size_t lda, size_t begin,
                size_t end, size_t first_panel, size_t last_panel) const {
    for (size_t g = 0; g < shape_.groups; ++g) {
      const float* const group_a = a + g * depth_;
      kernel_.run({end - begin, shape_.group_out, depth_, 1, &group_a, lda,
                   weights_.floats() + g * group_floats_,
                   b.out() + begin * shape_.out_channels + g * shape_.group_out,
                   shape_.out_channels, first_panel, last_panel,
                   e.from_channel(g * shape_.group_out).from_pixel(begin)});
    }
  }

  // Patches [group][ky][kx][channel] of the pixels [begin, end).
  void gather(const float* x, float* to, size_t begin, size_t end) const {
    const Shape& s = shape_;
    const size_t bytes = s.group_channels * sizeof(float);
    for (size_t i = begin; i < end; ++i) {
      const size_t ox = i % s.out_width, oy = i / s.out_width % s.out_height;
      const float* const image = x + i / s.out_width / s.out_height * s.height * s.width * s.channels;
      for (size_t g = 0; g < s.groups; ++g) {
        for (size_t ky = 0; ky < s.kernel_height; ++ky) {
          // Wraps round to a large number above and to the left of the image.
          const size_t iy = oy * s.stride_y + ky * s.dilation_y - s.top;
          for (size_t kx = 0; kx < s.kernel_width; ++kx, to += s.group_channels) {
            const size_t ix = ox * s.stride_x + kx * s.dilation_x - s.left;
            if (iy < s.height && ix < s.width)
              std::memcpy(to, image + (iy * s.width + ix) * s.channels + g * s.group_channels, bytes);
            else
              std::memset(to, 0, bytes);
          }
        }
      }
    }
  }

  GemmKernel kernel_;
  size_t depth_, group_floats_, panels_, block_;
  bool in_place_;
  Arena weights_;
};

// The kernel_width * channels floats under one row of the kernel lie side by side, so a row of y is
// a GEMM of kernel_height segments that reads rows of x with padding at both ends. Such rows are
// kept, as many as the kernel is high, while y goes down.
class RowConv : public Conv {
 public:
  RowConv(const Node& node, const Shape& shape)
      : Conv(node, shape), kernel_(find_gemm(node.isa)) {
    const size_t depth = shape.taps() * shape.channels;
    const float* w = node.constant(kWeights, node.in(kWeights).count);
    const size_t floats = kernel_.pack(depth, shape.out_channels, nullptr, 1, depth, nullptr);
    weights_ = Arena(floats * sizeof(float));
    kernel_.pack(depth, shape.out_channels, w, 1, depth, weights_.floats());
    panels_ = kernel_.count_panels(shape.out_channels);
    kept_rows_ = (shape.kernel_height - 1) * shape.dilation_y + 1;
    line_ = checked_product((shape.out_width - 1) * shape.stride_x + shape.kernel_width,
                            shape.channels);
    line_ = round_up(line_ * sizeof(float)) / sizeof(float);
  }

  static bool suits(const Shape& s) {
    constexpr size_t kLeastWidth = 16;
    return s.groups == 1 && s.dilation_x == 1 && s.out_width >= kLeastWidth && s.taps() > 1;
  }

  size_t scratch_bytes(int threads) const override {
    return checked_product(static_cast<size_t>(threads), thread_bytes());
  }

  void run(const Buffers& b) const override {
    const size_t work = shape_.out_width * shape_.out_channels * shape_.taps() * shape_.channels;
    b.pool->parallel(shape_.images * shape_.out_height, grain_of(work),
                     [&](size_t begin, size_t end, int thread) {
                       rows(b, begin, end, b.scratch + static_cast<size_t>(thread) * thread_bytes());
                     });
  }

 private:
  // The kept lines, a line of zeros, and a pointer for each row of the kernel.
  size_t thread_bytes() const {
    return checked_product(kept_rows_ + 1, line_ * sizeof(float)) +
           round_up(shape_.kernel_height * sizeof(float*));
  }

  void rows(const Buffers& b, size_t begin, size_t end, char* scratch) const {
    const Shape& s = shape_;
    float* const lines = reinterpret_cast<float*>(scratch);
    const float* const zeros = lines + kept_rows_ * line_;
    const float** const segments = reinterpret_cast<const float**>(lines + (kept_rows_ + 1) * line_);
    std::memset(lines, 0, (kept_rows_ + 1) * line_ * sizeof(float));
    const Epilogue e = epilogue(b);
    const size_t left = s.left * s.channels;
    const size_t floats = left < line_ ? std::min(s.width * s.channels, line_ - left) : 0;
    const size_t out_floats = s.out_width * s.out_channels;
    size_t loaded = 0;  // padded rows before this one are in `lines`, or no more needed
    for (size_t row = begin; row < end; ++row) {
      const size_t first = row % s.out_height * s.stride_y;
      const float* const image = b.in(kX) + row / s.out_height * s.height * s.width * s.channels;
      if (row == begin || first == 0) loaded = first;
      for (loaded = std::max(loaded, first); loaded < first + kept_rows_; ++loaded) {
        if (loaded - s.top < s.height) {
          std::memcpy(lines + loaded % kept_rows_ * line_ + left,
                      image + (loaded - s.top) * s.width * s.channels, floats * sizeof(float));
        }
      }
      for (size_t ky = 0; ky < s.kernel_height; ++ky) {
        const size_t y = first + ky * s.dilation_y;
        segments[ky] = y - s.top < s.height ? lines + y % kept_rows_ * line_ : zeros;
      }
      kernel_.run({s.out_width, s.out_channels, s.kernel_width * s.channels, s.kernel_height,
                   segments, s.stride_x * s.channels, weights_.floats(),
                   b.out() + row * out_floats, s.out_channels, 0, panels_,
                   e.from_pixel(row * s.out_width)});
    }
  }

  GemmKernel kernel_;
  size_t panels_, kept_rows_, line_;
  Arena weights_;
};

}  // namespace

StepPtr make_conv(const Node& node) {
  const Shape shape(node);
  if (shape.groups == shape.channels && shape.groups > 1)
    return std::make_unique<DepthwiseConv>(node, shape);
  if (RowConv::suits(shape)) return std::make_unique<RowConv>(node, shape);
  return std::make_unique<GemmConv>(node, shape);
}

}  // namespace palm
