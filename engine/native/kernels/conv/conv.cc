// Convolution: 1x1 as a GEMM that reads x in place, depthwise by its own kernel, the rest as a GEMM
// of patches gathered block by block.
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
      b.pool->parallel(s.images * s.height * s.width, 256, [&](size_t begin, size_t end, int) {
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
    b.pool->parallel(s.images * s.out_height, 1,
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
    constexpr size_t kMostTileRows = 16;
    if (in_place_) {
      if (shape_.pixels < kMostTileRows * 2) {
        b.pool->parallel(panels_, 1, [&](size_t begin, size_t end, int) {
          multiply(b, e, b.in(kX), shape_.channels, 0, shape_.pixels, begin, end);
        });
      } else {
        b.pool->parallel(shape_.pixels, kMostTileRows, [&](size_t begin, size_t end, int) {
          multiply(b, e, b.in(kX) + begin * shape_.channels, shape_.channels, begin, end, 0, panels_);
        });
      }
      return;
    }
    b.pool->parallel(shape_.pixels, kLeastBlock, [&](size_t begin, size_t end, int thread) {
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

}  // namespace

StepPtr make_conv(const Node& node) {
  const Shape shape(node);
  if (shape.groups == shape.channels && shape.groups > 1)
    return std::make_unique<DepthwiseConv>(node, shape);
  return std::make_unique<GemmConv>(node, shape);
}

}  // namespace palm
