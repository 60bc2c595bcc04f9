#include <algorithm>

#include "kernels/conv/conv.h"
#include "kernels/gemm/gemm.h"
#include "kernels/winograd/winograd.h"

namespace palm {
namespace {

// 3x3 by Winograd's way: blocks of tiles, each gathered, multiplied and scattered.
class WinogradConv : public Conv {
 public:
  WinogradConv(const Node& node, const ConvShape& shape)
      : Conv(node, shape), gemm_(find_gemm(node.isa)), kernel_(find_winograd(node.isa)) {
    tiles_across_ = (shape.out_width + Winograd::kTile - 1) / Winograd::kTile;
    tiles_down_ = (shape.out_height + Winograd::kTile - 1) / Winograd::kTile;
    tiles_ = shape.images * tiles_across_ * tiles_down_;
    const size_t floats = Winograd::kProducts * (shape.channels + shape.out_channels);
    constexpr size_t kL2Floats = 128 << 10, kLeastTiles = 16, kMostTiles = 64;
    block_ = std::clamp(kL2Floats / floats, kLeastTiles, kMostTiles);
    panels_ = gemm_.count_panels(shape.out_channels);
    pack(node.constant(kWeights, node.in(kWeights).count));
  }

  size_t scratch_bytes(int threads) const override {
    const size_t tiles = block(threads);
    return Winograd::kProducts * sizeof(float) *
           (plane(tiles, shape_.channels) + plane(tiles, shape_.out_channels));
  }

  void run(const Buffers& b) const override {
    const ConvShape& s = shape_;
    const size_t most = block(b.pool->threads());
    Winograd w{s.height,
               s.width,
               s.channels,
               s.out_height,
               s.out_width,
               s.out_channels,
               static_cast<ptrdiff_t>(s.top),
               static_cast<ptrdiff_t>(s.left),
               tiles_across_,
               tiles_down_,
               b.in(kX),
               b.out(),
               reinterpret_cast<float*>(b.scratch),
               nullptr,
               plane(most, s.channels),
               plane(most, s.out_channels),
               epilogue(b)};
    w.products = w.patches + Winograd::kProducts * w.patch_stride;
    constexpr size_t kTransform = 8 * Winograd::kProducts;
    for (size_t first = 0; first < tiles_; first += most) {
      const size_t count = std::min(most, tiles_ - first);
      b.pool->parallel(count, grain_of(s.channels * kTransform),
                       [&](size_t begin, size_t end, int) {
                         kernel_.gather(w, first, first + begin, first + end);
                       });
      b.pool->parallel(Winograd::kProducts, grain_of(count * s.channels * s.out_channels),
                       [&](size_t begin, size_t end, int) {
                         for (size_t p = begin; p < end; ++p) multiply(w, p, count);
                       });
      b.pool->parallel(count, grain_of(s.out_channels * kTransform),
                       [&](size_t begin, size_t end, int) {
                         kernel_.scatter(w, first, first + begin, first + end);
                       });
    }
  }

 private:
  // Tiles at a time: each thread's part of them stays in its L2.
  size_t block(int threads) const {
    return std::max<size_t>(1, std::min(block_ * static_cast<size_t>(threads), tiles_));
  }

  // Floats of one product; a little more, as whole pages apart would share cache sets.
  static size_t plane(size_t tiles, size_t channels) {
    return round_up(checked_product(tiles, channels) * sizeof(float)) / sizeof(float) + 16;
  }

  void multiply(const Winograd& w, size_t p, size_t count) const {
    const float* const patches = w.patches + p * w.patch_stride;
    gemm_.run({count,
               w.out_channels,
               w.channels,
               1,
               &patches,
               w.channels,
               weights_.floats() + p * packed_floats_,
               w.products + p * w.product_stride,
               w.out_channels,
               0,
               panels_,
               {}});
  }

  void pack(const float* weights) {
    const size_t in = shape_.channels, out = shape_.out_channels;
    packed_floats_ = gemm_.pack(in, out, nullptr, out, 1, nullptr);
    packed_floats_ = round_up(packed_floats_ * sizeof(float)) / sizeof(float);
    weights_ = Arena(checked_product(packed_floats_, Winograd::kProducts) * sizeof(float));
    std::vector<float> all(checked_product(checked_product(in, out), Winograd::kProducts));
    for (size_t m = 0; m < out; ++m) {
      for (size_t c = 0; c < in; ++c) {
        double kernel[9], transformed[Winograd::kProducts];
        for (size_t t = 0; t < 9; ++t)
          kernel[t] = static_cast<double>(weights[(m * 9 + t) * in + c]);
        winograd_weights(kernel, transformed);
        for (size_t p = 0; p < Winograd::kProducts; ++p)
          all[(p * in + c) * out + m] = static_cast<float>(transformed[p]);
      }
    }
    for (size_t p = 0; p < Winograd::kProducts; ++p) {
      gemm_.pack(in, out, all.data() + p * in * out, out, 1,
                 weights_.floats() + p * packed_floats_);
    }
  }

  GemmKernel gemm_;
  WinogradKernel kernel_;
  size_t tiles_across_, tiles_down_, tiles_, block_, panels_, packed_floats_;
  Arena weights_;
};

}  // namespace

StepPtr make_winograd_conv(const Node& node, const ConvShape& shape, size_t) {
  return std::make_unique<WinogradConv>(node, shape);
}

bool suits_winograd(const ConvShape& s, size_t tile) {
  return tile == Winograd::kTile && s.kernel_height == 3 && s.kernel_width == 3 &&
         s.stride_y == 1 && s.stride_x == 1 && s.dilation_y == 1 && s.dilation_x == 1 &&
         s.groups == 1;
}

}  // namespace palm
