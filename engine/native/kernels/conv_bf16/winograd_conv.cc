#include <algorithm>

#include "kernels/conv/bf16_conv.h"
#include "kernels/winograd/blocks.h"
#include "kernels/winograd_bf16/winograd_bf16.h"

namespace palm {
namespace {

// 3x3 by Winograd's way: blocks of tiles, each gathered, multiplied and scattered.
class WinogradConv : public Bf16Conv {
 public:
  WinogradConv(const Node& node, const ConvShape& shape)
      : Bf16Conv(node, shape),
        gemm_(find_gemm_bf16(node.isa)),
        kernel_(find_winograd_bf16(node.isa)) {
    constexpr size_t kTile = WinogradBf16::kTile;
    tiles_across_ = (shape.out_width + kTile - 1) / kTile;
    tiles_down_ = (shape.out_height + kTile - 1) / kTile;
    tiles_ = shape.images * tiles_across_ * tiles_down_;
    panels_ = gemm_.count_panels(shape.out_channels);
    pack(node.constant(kWeights, node.in(kWeights).count));
  }

  size_t scratch_bytes(int threads) const override {
    return checked_product(static_cast<size_t>(threads), block_bytes(blocks(threads).largest()));
  }

  void run(const Buffers& b) const override {
    const ConvShape& s = shape_;
    const int threads = b.pool->threads();
    const TileBlocks blocks = this->blocks(threads);
    const size_t most = blocks.largest();
    WinogradBf16 w{};
    w.height = s.height, w.width = s.width, w.channels = s.channels;
    w.out_height = s.out_height, w.out_width = s.out_width, w.out_channels = s.out_channels;
    w.top = static_cast<ptrdiff_t>(s.top), w.left = static_cast<ptrdiff_t>(s.left);
    w.tiles_across = tiles_across_, w.tiles_down = tiles_down_;
    w.x = x(b), w.x_stride = s.x_pixel, w.y = y(b), w.y_stride = s.y_pixel;
    w.patch_stride = plane(most * s.channels), w.product_stride = plane(most * s.out_channels);
    w.epilogue = epilogue(b);
    const auto own = [&](int thread) {
      WinogradBf16 part = w;
      char* const scratch = b.scratch + static_cast<size_t>(thread) * block_bytes(most);
      part.products = reinterpret_cast<float*>(scratch);
      part.patches = reinterpret_cast<Bf16*>(part.products + kProducts * w.product_stride);
      return part;
    };
    if (!shared(threads)) {
      const size_t work = kProducts * s.channels * s.out_channels * most;
      b.pool->parallel(blocks.count(), grain_of(work), [&](size_t begin, size_t end, int thread) {
        const WinogradBf16 part = own(thread);
        for (size_t block = begin; block < end; ++block) {
          const size_t first = blocks.begin(block), last = blocks.begin(block + 1);
          kernel_.gather(part, first, first, last);
          for (size_t i = 0; i < kProducts; ++i) multiply(part, i, last - first, 0, panels_);
          kernel_.scatter(part, first, first, last);
        }
      });
      return;
    }
    const WinogradBf16 all = own(0);
    constexpr size_t kTransform = 8 * kProducts;
    b.pool->parallel(tiles_, grain_of(s.channels * kTransform),
                     [&](size_t begin, size_t end, int) { kernel_.gather(all, 0, begin, end); });
    b.pool->parallel(kProducts * panels_, grain_of(tiles_ * s.channels * s.out_channels / panels_),
                     [&](size_t begin, size_t end, int) {
                       for (size_t i = begin; i < end; ++i)
                         multiply(all, i / panels_, tiles_, i % panels_, i % panels_ + 1);
                     });
    b.pool->parallel(tiles_, grain_of(s.out_channels * kTransform),
                     [&](size_t begin, size_t end, int) { kernel_.scatter(all, 0, begin, end); });
  }

 private:
  static constexpr size_t kProducts = WinogradBf16::kProducts;

  // Few tiles: then the threads share out their products and all read different weights.
  bool shared(int threads) const {
    constexpr size_t kFewTiles = 16;
    return threads > 1 && tiles_ < kFewTiles * static_cast<size_t>(threads);
  }

  // What is kept of a block stays in L2.
  TileBlocks blocks(int threads) const {
    if (shared(threads)) return {tiles_, tiles_, 1, 1};
    constexpr size_t kL2Bytes = 512 << 10, kLeastTiles = 16, kMostTiles = 64, kTileRows = 6;
    const size_t bytes =
        kProducts * (shape_.channels * sizeof(Bf16) + shape_.out_channels * sizeof(float));
    return {tiles_, std::clamp(kL2Bytes / bytes, kLeastTiles, kMostTiles), threads, kTileRows};
  }

  // An odd number of cache lines: whole pages apart, the products would share cache sets.
  static size_t plane(size_t numbers) { return (numbers + 63) / 64 * 64 + 32; }

  size_t block_bytes(size_t tiles) const {
    return kProducts * (plane(checked_product(tiles, shape_.channels)) * sizeof(Bf16) +
                        plane(checked_product(tiles, shape_.out_channels)) * sizeof(float));
  }

  void multiply(const WinogradBf16& w, size_t product, size_t count, size_t first_panel,
                size_t last_panel) const {
    const Bf16* const patches = w.patches + product * w.patch_stride;
    gemm_.run({count,
               w.out_channels,
               w.channels,
               1,
               &patches,
               w.channels,
               reinterpret_cast<const Bf16*>(weights_.data()) + product * packed_,
               {w.products + product * w.product_stride, false},
               w.out_channels,
               first_panel,
               last_panel,
               {}});
  }

  void pack(const float* weights) {
    const size_t in = shape_.channels, out = shape_.out_channels;
    packed_ = gemm_.pack(in, out, nullptr, 1, in, nullptr);
    weights_ = Arena(checked_product(packed_, kProducts) * sizeof(Bf16));
    const size_t plane = checked_product(in, out);
    std::vector<float> all(checked_product(plane, kProducts));
    for (size_t m = 0; m < out; ++m)
      winograd_bf16_weights(weights + m * 9 * in, in, all.data() + m * in, plane);
    for (size_t p = 0; p < kProducts; ++p) {
      gemm_.pack(in, out, all.data() + p * plane, 1, in,
                 reinterpret_cast<Bf16*>(weights_.data()) + p * packed_);
    }
  }

  GemmBf16Kernel gemm_;
  WinogradBf16Kernel kernel_;
  size_t tiles_across_, tiles_down_, tiles_, panels_, packed_;
  Arena weights_;
};

}  // namespace

StepPtr make_winograd_conv_bf16(const Node& node, const ConvShape& shape) {
  return std::make_unique<WinogradConv>(node, shape);
}

bool suits_winograd_bf16(const ConvShape& s) {
  constexpr size_t kLeastChannels = 32;
  return suits_winograd(s, WinogradBf16::kTile) && s.channels % 2 == 0 &&
         std::min(s.channels, s.out_channels) >= kLeastChannels;
}

}  // namespace palm
