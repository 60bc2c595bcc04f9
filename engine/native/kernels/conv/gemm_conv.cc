#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "base/needs.h"
#include "kernels/binary/binary.h"
#include "kernels/conv/bf16_conv.h"
#include "kernels/conv/float_conv.h"

namespace palm {
namespace {

// Base: FloatConv or Bf16Conv.
template <class Base>
class GemmConv : public Base {
  using Number = typename Base::Number;

 public:
  GemmConv(const Node& node, const ConvShape& shape)
      : Base(node, shape),
        kernel_(Base::find(node.isa)),
        depth_(shape.taps() * shape.group_channels) {
    depth_ += depth_ % Base::kTogether;
    if constexpr (kNeedsGates)
      if (shape.is_gated) multiply_ = find_binary(node.isa);
    if (this->packs()) pack(node);
    else group_numbers_ = depth_ * shape.out_channels;
    panels_ = kernel_.count_panels(shape.group_out);
    in_place_ = this->is_number() && shape.is_matrix() && depth_ == shape.group_channels;
    constexpr size_t kBlockNumbers = (256 << 10) / sizeof(Number);
    block_ = std::max<size_t>(kLeastBlock, kBlockNumbers / (depth_ * shape.groups));
    block_ = std::max<size_t>(1, std::min(block_, shape.pixels));
  }

  size_t scratch_bytes(int threads) const override {
    if (shape_.is_gated) return checked_product(static_cast<size_t>(threads), gated_bytes());
    return in_place_ ? 0 : static_cast<size_t>(threads) * block_bytes();
  }

  Bytes weights_read() const override { return weights_.bytes(); }

  void run(const Buffers& b) const override {
    const ConvShape& s = shape_;
    const auto x = this->x(b);
    if (s.is_gated) return multiply_gated(b);
    if (in_place_) return multiply_all(b, Base::numbers(x), s.x_pixel);
    const size_t lda = depth_ * s.groups;
    if (s.pixels <= block_) {
      Number* const patches = reinterpret_cast<Number*>(b.scratch);
      b.pool->parallel(
          s.pixels, grain_of(lda * kWorkOfTouching),
          [&](size_t begin, size_t end, int) { gather(x, patches + begin * lda, begin, end); });
      return multiply_all(b, patches, lda);
    }
    // Each part reads all weights, so none is small.
    Grain grain = grain_of(work(), tile_rows());
    grain.least = std::max(grain.least, kLeastBlock / 2);
    const auto e = this->epilogue(b);
    b.pool->parallel(s.pixels, grain, [&](size_t begin, size_t end, int thread) {
      Number* const patches =
          reinterpret_cast<Number*>(b.scratch + static_cast<size_t>(thread) * block_bytes());
      for (size_t i = begin; i < end; i += block_) {
        const size_t last = std::min(end, i + block_);
        gather(x, patches, i, last);
        multiply(b, e, patches, lda, i, last);
      }
    });
  }

 private:
  static constexpr size_t kLeastBlock = 64;

  void pack(const Node& node) {
    const ConvShape& s = shape_;
    std::vector<float> room;
    const size_t depth = depth_ * s.images_read;
    const float* w = this->weights(node, s.group_channels, depth, &room);
    const bool is_plain = s.images_read == 1 && !s.is_gated;
    if (is_plain && this->packs_halves(node, w, depth)) return;
    group_numbers_ = kernel_.pack(depth, s.group_out, nullptr, 1, depth, nullptr);
    weights_ = Arena(checked_product(group_numbers_, s.groups) * sizeof(Number));
    for (size_t g = 0; g < s.groups; ++g) {
      kernel_.pack(depth, s.group_out, w + g * s.group_out * depth, 1, depth,
                   packed() + g * group_numbers_);
    }
  }

  Number* packed() const { return reinterpret_cast<Number*>(weights_.data()); }

  size_t block_bytes() const {
    return round_up(
        checked_product(checked_product(block_, depth_ * shape_.groups), sizeof(Number)));
  }

  size_t tile_rows() const { return kernel_.first_panel(shape_.group_out).tile_rows; }

  // Of a pixel.
  size_t work() const { return depth_ * shape_.out_channels / Base::kTogether; }

  // All pixels, shared out.
  void multiply_all(const Buffers& b, const Number* a, size_t lda) const {
    const auto e = this->epilogue(b);
    const ConvShape& s = shape_;
    if (this->runs_halves(b, a, depth_)) return;
    if (s.groups == 1) {
      const Number* const images[] = {
          a, s.images_read > 1 ? static_cast<const Number*>(b.inputs[kSecond]) : nullptr};
      return run_gemm(
          kernel_,
          this->whole_product(b, {s.pixels, s.out_channels, depth_, s.images_read, images, lda,
                                  packed(), this->y(b), s.y_pixel, 0, panels_, e}),
          *b.pool);
    }
    b.pool->parallel(s.pixels, grain_of(work(), tile_rows()), [&](size_t begin, size_t end, int) {
      multiply(b, e, a + begin * lda, lda, begin, end);
    });
  }

  // Weights of its own for each thread.
  size_t gated_bytes() const { return round_up(checked_product(group_numbers_, sizeof(Number))); }

  // All pixels by weights that are multiplied by the gate, as squeeze and excitation has it (Hu,
  // Shen and Sun, arXiv 1709.01507): they are fewer than the image's numbers.
  void multiply_gated(const Buffers& b) const {
    if constexpr (std::is_same_v<Number, float>) {
      const ConvShape& s = shape_;
      const auto e = this->epilogue(b);
      b.pool->parallel(s.pixels, grain_of(work(), tile_rows()), [&](size_t begin, size_t end,
                                                                    int thread) {
        const float* const x = this->x(b) + begin * s.x_pixel;
        Gemm gemm = this->product(b, {end - begin, s.out_channels, depth_, 1, &x, s.x_pixel,
                                      packed(), this->y(b) + begin * s.y_pixel, s.y_pixel, 0,
                                      panels_, e.from_pixel(begin)});
        float* const gated =
            reinterpret_cast<float*>(b.scratch + static_cast<size_t>(thread) * gated_bytes());
        gate(gemm.b, b.in(kGate), gated);
        gemm.b = gated;
        kernel_.run(gemm);
      });
    }
  }

  void gate(const float* weights, const float* gate, float* to) const {
    for (size_t left = shape_.out_channels; left;) {
      const GemmPanel panel = kernel_.first_panel(left);
      const size_t width = this->packs() ? panel.width : left;
      multiply_({BinaryOp::kMul, depth_, width, weights, static_cast<ptrdiff_t>(width), 1, gate, 1,
                 0, to, -INFINITY, INFINITY});
      weights += depth_ * width, to += depth_ * width;
      left -= this->packs() ? panel.columns : left;
    }
  }

  // Pixels [begin, end) from their patches, `a` being the first's.
  template <class Epilogue>
  void multiply(const Buffers& b, const Epilogue& e, const Number* a, size_t lda, size_t begin,
                size_t end) const {
    const ConvShape& s = shape_;
    for (size_t g = 0; g < s.groups; ++g) {
      const Number* const group_a = a + g * depth_;
      kernel_.run(this->product(
          b, {end - begin, s.group_out, depth_, 1, &group_a, lda, packed() + g * group_numbers_,
              this->y(b) + (begin * s.y_pixel + g * s.group_out), s.y_pixel, 0, panels_,
              e.from_channel(g * s.group_out).from_pixel(begin)}));
    }
  }

  // Patches [group][ky][kx][channel] of the pixels [begin, end), a group's with zeros at the end.
  template <class X>
  void gather(X x, Number* to, size_t begin, size_t end) const {
    const ConvShape& s = shape_;
    if (s.is_matrix() && depth_ == s.group_channels && s.x_pixel == s.channels)
      return this->load(x + begin * s.channels, (end - begin) * s.channels, to);
    const size_t zeros = depth_ - s.taps() * s.group_channels;
    for (size_t i = begin; i < end; ++i) {
      const size_t ox = i % s.out_width, oy = i / s.out_width % s.out_height;
      const X image = x + i / s.out_width / s.out_height * s.height * s.width * s.x_pixel;
      for (size_t g = 0; g < s.groups; ++g) {
        for (size_t ky = 0; ky < s.kernel_height; ++ky) {
          // Wraps round to a large number above and to the left of the image.
          const size_t iy = oy * s.stride_y + ky * s.dilation_y - s.top;
          for (size_t kx = 0; kx < s.kernel_width; ++kx, to += s.group_channels) {
            const size_t ix = ox * s.stride_x + kx * s.dilation_x - s.left;
            if (iy < s.height && ix < s.width) {
              this->load(image + ((iy * s.width + ix) * s.x_pixel + g * s.group_channels),
                         s.group_channels, to);
            } else {
              std::memset(static_cast<void*>(to), 0, s.group_channels * sizeof(Number));
            }
          }
        }
        for (size_t j = 0; j < zeros; ++j) *to++ = {};
      }
    }
  }

  using Base::shape_;
  typename Base::Kernel kernel_;
  BinaryFn multiply_ = nullptr;
  size_t depth_, group_numbers_ = 0, panels_, block_;
  bool in_place_;
  Arena weights_;
};

}  // namespace

StepPtr make_gemm_conv(const Node& node, const ConvShape& shape) {
  return std::make_unique<GemmConv<FloatConv>>(node, shape);
}

StepPtr make_gemm_conv_bf16(const Node& node, const ConvShape& shape) {
  return std::make_unique<GemmConv<Bf16Conv>>(node, shape);
}

}  // namespace palm
