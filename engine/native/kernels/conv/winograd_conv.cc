#include <algorithm>

#include "kernels/conv/conv.h"
#include "kernels/gemm/gemm.h"
#include "kernels/winograd/winograd.h"

namespace palm {
namespace {

// Blocks of tiles, each gathered, multiplied and scattered.
class WinogradConv : public Conv {
 public:
  WinogradConv(const Node& node, const ConvShape& shape, size_t tile)
      : Conv(node, shape),
        gemm_(find_gemm(node.isa)),
        kernel_(find_winograd(node.isa, tile, shape.kernel_height)),
        tile_(tile),
        products_((tile + shape.kernel_height - 1) * (tile + shape.kernel_height - 1)) {
    tiles_across_ = (shape.out_width + tile - 1) / tile;
    tiles_down_ = (shape.out_height + tile - 1) / tile;
    tiles_ = shape.images * tiles_across_ * tiles_down_;
    // With as few tiles as one register tile has rows the weights are read only once, from memory.
    constexpr size_t kFewest = 8, kFew = 16;
    panel_ = tiles_ > kFewest && tiles_ <= kFew ? kNarrowPanel : kWidePanel;
    panels_ = (shape.out_channels + panel_ - 1) / panel_;
    pack(node.constant(kWeights, node.in(kWeights).count));
  }

  size_t scratch_bytes(int threads) const override {
    const size_t blocks = shared(threads) ? 1 : static_cast<size_t>(threads);
    return sizeof(float) *
           (whole_vectors(shape_.channels) + checked_product(blocks, block_floats(block(threads))));
  }

  void run(const Buffers& b) const override {
    const ConvShape& s = shape_;
    const int threads = b.pool->threads();
    const size_t most = block(threads);
    float* const zeros = reinterpret_cast<float*>(b.scratch);
    float* const scratch = zeros + whole_vectors(s.channels);
    std::fill_n(zeros, s.channels, 0.f);
    Winograd w{};
    w.height = s.height, w.width = s.width, w.channels = s.channels;
    w.out_height = s.out_height, w.out_width = s.out_width, w.out_channels = s.out_channels;
    w.top = static_cast<ptrdiff_t>(s.top), w.left = static_cast<ptrdiff_t>(s.left);
    w.tiles_across = tiles_across_, w.tiles_down = tiles_down_;
    w.x = b.in(kX), w.zeros = zeros, w.y = b.out();
    w.patch_stride = whole_vectors(s.channels), w.product_stride = whole_vectors(s.out_channels);
    w.patch_plane = plane(most * w.patch_stride), w.product_plane = plane(most * w.product_stride);
    w.patches = scratch, w.products = w.patches + products_ * w.patch_plane;
    w.epilogue = epilogue(b);
    if (shared(threads)) return run_shared(w, *b.pool);
    b.pool->parallel(tiles_, {most, most}, [&](size_t begin, size_t end, int thread) {
      Winograd own = w;
      own.patches += static_cast<size_t>(thread) * block_floats(most);
      own.products += static_cast<size_t>(thread) * block_floats(most);
      for (size_t first = begin; first < end; first += most) {
        const size_t last = std::min(end, first + most);
        kernel_.gather(own, first, first, last);
        for (size_t i = 0; i < products_ * panels_; ++i) multiply(own, i, last - first);
        kernel_.scatter(own, first, first, last);
      }
    });
  }

 private:
  static constexpr size_t kNarrowPanel = 16, kWidePanel = 64;

  // Few tiles: then the threads share out their products and all read different weights.
  bool shared(int threads) const {
    constexpr size_t kFewTiles = 16;
    return threads > 1 && tiles_ < kFewTiles * static_cast<size_t>(threads);
  }

  void run_shared(const Winograd& w, Pool& pool) const {
    const size_t transform = 8 * products_, in = shape_.channels, out = shape_.out_channels;
    pool.parallel(tiles_, grain_of(in * transform),
                  [&](size_t begin, size_t end, int) { kernel_.gather(w, 0, begin, end); });
    pool.parallel(products_ * panels_, grain_of(tiles_ * in * panel_),
                  [&](size_t begin, size_t end, int) {
                    for (size_t i = begin; i < end; ++i) multiply(w, i, tiles_);
                  });
    pool.parallel(tiles_, grain_of(out * transform),
                  [&](size_t begin, size_t end, int) { kernel_.scatter(w, 0, begin, end); });
  }

  // Tiles at a time: what is kept of them stays in L2, and every thread gets as many blocks.
  size_t block(int threads) const {
    if (shared(threads)) return tiles_;
    constexpr size_t kL2Floats = 128 << 10, kLeastTiles = 28, kMostTiles = 56;
    const size_t floats = products_ * (shape_.channels + shape_.out_channels);
    const size_t most = std::clamp(kL2Floats / floats, kLeastTiles, kMostTiles);
    const size_t each = static_cast<size_t>(threads) * most;
    const size_t blocks =
        std::max<size_t>(1, (tiles_ + each - 1) / each) * static_cast<size_t>(threads);
    return std::max<size_t>(1, (tiles_ + blocks - 1) / blocks);
  }

  static size_t whole_vectors(size_t floats) { return (floats + 15) / 16 * 16; }

  // An odd number of cache lines: whole pages apart, the products would share cache sets.
  static size_t plane(size_t floats) { return floats / 16 % 2 ? floats : floats + 16; }

  size_t block_floats(size_t tiles) const {
    return products_ * (plane(checked_product(tiles, whole_vectors(shape_.channels))) +
                        plane(checked_product(tiles, whole_vectors(shape_.out_channels))));
  }

  // `index` counts panels of all products.
  void multiply(const Winograd& w, size_t index, size_t count) const {
    constexpr size_t kAhead = 4096;
    const size_t product = index / panels_, column = index % panels_ * panel_;
    const size_t columns = std::min(panel_, w.out_channels - column);
    const float* const patches = w.patches + product * w.patch_plane;
    gemm_.run({count,
               columns,
               w.channels,
               1,
               &patches,
               w.patch_stride,
               weights_.floats() + index * panel_floats_,
               w.products + product * w.product_plane + column,
               w.product_stride,
               0,
               gemm_.count_panels(columns),
               {},
               panel_ == kNarrowPanel ? kAhead : 0});
  }

  void pack(const float* weights) {
    const size_t in = shape_.channels, out = shape_.out_channels;
    const size_t taps = shape_.taps();
    panel_floats_ = whole_vectors(gemm_.pack(in, panel_, nullptr, panel_, 1, nullptr));
    weights_ = Arena(checked_product(panel_floats_, products_ * panels_) * sizeof(float));
    const size_t plane = checked_product(in, panel_);
    std::vector<float> all(checked_product(plane, products_));
    for (size_t i = 0; i < panels_; ++i) {
      const size_t columns = std::min(panel_, out - i * panel_);
      const float* const w = weights + i * panel_ * taps * in;
      for (size_t m = 0; m < columns; m += Winograd::kKernels) {
        const size_t count = std::min(Winograd::kKernels, columns - m);
        for (size_t c = 0; c < in; ++c) {
          kernel_.weights(w + m * taps * in + c, in, taps * in, count, all.data() + c * panel_ + m,
                          plane);
        }
      }
      for (size_t p = 0; p < products_; ++p) {
        gemm_.pack(in, columns, all.data() + p * plane, panel_, 1,
                   weights_.floats() + (p * panels_ + i) * panel_floats_);
      }
    }
  }

  GemmKernel gemm_;
  WinogradKernel kernel_;
  size_t tile_, products_, tiles_across_, tiles_down_, tiles_, panel_, panels_, panel_floats_;
  Arena weights_;
};

}  // namespace

StepPtr make_winograd_conv(const Node& node, const ConvShape& shape, size_t tile) {
  return std::make_unique<WinogradConv>(node, shape, tile);
}

bool suits_winograd(const ConvShape& s, size_t tile) {
  constexpr size_t kLeastChannels = 8;  // a vector, where those are not masked
  return (tile == 2 || tile == 4 || tile == 6) && s.channels >= kLeastChannels &&
         s.kernel_height == 3 && s.kernel_width == 3 && s.stride_y == 1 && s.stride_x == 1 &&
         s.dilation_y == 1 && s.dilation_x == 1 && s.groups == 1;
}

}  // namespace palm
