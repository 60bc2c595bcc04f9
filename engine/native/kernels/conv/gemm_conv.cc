#include <algorithm>
#include <cstring>

#include "kernels/conv/conv.h"
#include "kernels/gemm/gemm.h"

namespace palm {
namespace {

class GemmConv : public Conv {
 public:
  GemmConv(const Node& node, const ConvShape& shape)
      : Conv(node, shape),
        kernel_(find_gemm(node.isa)),
        depth_(shape.taps() * shape.group_channels) {
    const float* w = node.constant(kWeights, node.in(kWeights).count);
    group_floats_ = kernel_.pack(depth_, shape.group_out, nullptr, 1, depth_, nullptr);
    weights_ = Arena(checked_product(group_floats_, shape.groups) * sizeof(float));
    for (size_t g = 0; g < shape.groups; ++g) {
      kernel_.pack(depth_, shape.group_out, w + g * shape.group_out * depth_, 1, depth_,
                   weights_.floats() + g * group_floats_);
    }
    panels_ = kernel_.count_panels(shape.group_out);
    in_place_ = shape.is_matrix();
    constexpr size_t kBlockFloats = 64 << 10;
    block_ = std::max<size_t>(kLeastBlock, kBlockFloats / (depth_ * shape.groups));
    block_ = std::max<size_t>(1, std::min(block_, shape.pixels));
  }

  size_t scratch_bytes(int threads) const override {
    return in_place_ ? 0 : static_cast<size_t>(threads) * block_bytes();
  }

  void run(const Buffers& b) const override {
    const Epilogue e = epilogue(b);
    const size_t lda = depth_ * shape_.groups;
    if (in_place_) return multiply_all(b, e, b.in(kX), lda);
    if (shape_.pixels <= block_) {
      float* const patches = reinterpret_cast<float*>(b.scratch);
      b.pool->parallel(shape_.pixels, grain_of(lda * kWorkOfTouching),
                       [&](size_t begin, size_t end, int) {
                         gather(b.in(kX), patches + begin * lda, begin, end);
                       });
      return multiply_all(b, e, patches, lda);
    }
    // Each part reads all weights, so none is small.
    Grain grain = grain_of(depth_ * shape_.out_channels, tile_rows());
    grain.least = std::max(grain.least, kLeastBlock / 2);
    b.pool->parallel(shape_.pixels, grain, [&](size_t begin, size_t end, int thread) {
      float* const patches =
          reinterpret_cast<float*>(b.scratch + static_cast<size_t>(thread) * block_bytes());
      for (size_t i = begin; i < end; i += block_) {
        const size_t last = std::min(end, i + block_);
        gather(b.in(kX), patches, i, last);
        multiply(b, e, patches, lda, i, last);
      }
    });
  }

 private:
  static constexpr size_t kLeastBlock = 64;

  size_t block_bytes() const {
    return round_up(
        checked_product(checked_product(block_, depth_ * shape_.groups), sizeof(float)));
  }

  size_t tile_rows() const { return kernel_.first_panel(shape_.group_out).tile_rows; }

  // All pixels, shared out.
  void multiply_all(const Buffers& b, const Epilogue& e, const float* a, size_t lda) const {
    if (shape_.groups == 1) {
      return run_gemm(kernel_,
                      {shape_.pixels, shape_.out_channels, depth_, 1, &a, lda, weights_.floats(),
                       b.out(), shape_.out_channels, 0, panels_, e},
                      *b.pool);
    }
    b.pool->parallel(shape_.pixels, grain_of(depth_ * shape_.out_channels, tile_rows()),
                     [&](size_t begin, size_t end, int) {
                       multiply(b, e, a + begin * lda, lda, begin, end);
                     });
  }

  // Pixels [begin, end) from their patches, `a` being the first's.
  void multiply(const Buffers& b, const Epilogue& e, const float* a, size_t lda, size_t begin,
                size_t end) const {
    for (size_t g = 0; g < shape_.groups; ++g) {
      const float* const group_a = a + g * depth_;
      kernel_.run({end - begin, shape_.group_out, depth_, 1, &group_a, lda,
                   weights_.floats() + g * group_floats_,
                   b.out() + begin * shape_.out_channels + g * shape_.group_out,
                   shape_.out_channels, 0, panels_,
                   e.from_channel(g * shape_.group_out).from_pixel(begin)});
    }
  }

  // Patches [group][ky][kx][channel] of the pixels [begin, end).
  void gather(const float* x, float* to, size_t begin, size_t end) const {
    const ConvShape& s = shape_;
    const size_t bytes = s.group_channels * sizeof(float);
    for (size_t i = begin; i < end; ++i) {
      const size_t ox = i % s.out_width, oy = i / s.out_width % s.out_height;
      const float* const image =
          x + i / s.out_width / s.out_height * s.height * s.width * s.channels;
      for (size_t g = 0; g < s.groups; ++g) {
        for (size_t ky = 0; ky < s.kernel_height; ++ky) {
          // Wraps round to a large number above and to the left of the image.
          const size_t iy = oy * s.stride_y + ky * s.dilation_y - s.top;
          for (size_t kx = 0; kx < s.kernel_width; ++kx, to += s.group_channels) {
            const size_t ix = ox * s.stride_x + kx * s.dilation_x - s.left;
            if (iy < s.height && ix < s.width)
              std::memcpy(to, image + (iy * s.width + ix) * s.channels + g * s.group_channels,
                          bytes);
            else std::memset(to, 0, bytes);
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

StepPtr make_gemm_conv(const Node& node, const ConvShape& shape) {
  return std::make_unique<GemmConv>(node, shape);
}

}  // namespace palm
