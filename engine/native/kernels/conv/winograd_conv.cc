#include <algorithm>
#include <cstring>

#include "kernels/conv/conv.h"
#include "kernels/gemm/gemm.h"
#include "kernels/winograd/blocks.h"
#include "kernels/winograd/winograd.h"

namespace palm {
namespace {

// What is convolved in steps of one. Steps of two by a kernel of k taps are steps of one by (k + 1)
// / 2 taps over four times the channels: squares of 2 by 2 pixels, taken for one each.
struct Unstrided {
  explicit Unstrided(const ConvShape& s)
      : stride(s.stride_x),
        taps((s.kernel_height + stride - 1) / stride),
        channels(s.channels * stride * stride),
        pixel(stride == 1 ? s.x_pixel : whole_vectors(channels)),
        height(stride == 1 ? s.height : s.out_height + taps - 1),
        width(stride == 1 ? s.width : s.out_width + taps - 1) {}

  static size_t whole_vectors(size_t floats) { return (floats + 15) / 16 * 16; }

  size_t stride, taps, channels;
  size_t pixel;  // floats from one to the next
  size_t height, width;
};

// Rows [begin, end) of squares; `row` counts those of all images.
template <size_t kChannels>
void make_squares(const ConvShape& s, const Unstrided& u, const float* x, float* squares,
                  size_t begin, size_t end) {
  constexpr size_t kPair = 2 * kChannels;
  for (size_t row = begin; row < end; ++row) {
    float* const to = squares + row * u.width * u.pixel;
    for (size_t half = 0; half < 2; ++half) {
      // Wraps round to a large number above the image.
      const size_t y = row % u.height * 2 + half - s.top;
      const float* const line = x + (row / u.height * s.height + y) * s.width * kChannels;
      for (size_t i = 0; i < u.width; ++i) {
        float* const pair = to + i * u.pixel + half * kPair;
        const size_t left = i * 2 - s.left;
        if (y < s.height && left < s.width && left + 1 < s.width) {
          std::memcpy(pair, line + left * kChannels, kPair * sizeof(float));
          continue;
        }
        for (size_t j = 0; j < 2; ++j) {
          float* const one = pair + j * kChannels;
          if (y < s.height && left + j < s.width)
            std::memcpy(one, line + (left + j) * kChannels, kChannels * sizeof(float));
          else std::fill_n(one, kChannels, 0.f);
        }
      }
    }
  }
}

// Blocks of tiles, each gathered, multiplied and scattered.
class WinogradConv : public Conv {
 public:
  WinogradConv(const Node& node, const ConvShape& shape, size_t tile)
      : Conv(node, shape),
        x_(shape),
        gemm_(find_gemm(node.isa)),
        kernel_(find_winograd(node.isa, tile, x_.taps)),
        products_((tile + x_.taps - 1) * (tile + x_.taps - 1)) {
    tiles_across_ = (shape.out_width + tile - 1) / tile;
    tiles_down_ = (shape.out_height + tile - 1) / tile;
    tiles_ = shape.images * tiles_across_ * tiles_down_;
    const float* const weights = node.constant(kWeights, node.in(kWeights).count);
    if ((keeps_taps_ = winograd_keeps_taps(shape, tile, node.isa))) {
      panel_ = Winograd::kKernels;
      panels_ = shape.out_channels / panel_;
      pack_taps(weights);
      return;
    }
    // Weights that come from memory are read only once where a register tile has all tiles' rows.
    constexpr size_t kFewest = 8, kFew = 16, kFar = 2 << 20;
    const bool far = products_ * x_.channels * shape.out_channels >= kFar;
    panel_ = far && tiles_ > kFewest && tiles_ <= kFew ? kNarrowPanel : kWidePanel;
    panels_ = (shape.out_channels + panel_ - 1) / panel_;
    pack(weights);
  }

  size_t scratch_bytes(int threads) const override {
    const size_t copies = shared(threads) ? 1 : static_cast<size_t>(threads);
    return sizeof(float) * (whole_vectors(x_.channels) + square_floats() +
                            checked_product(copies, block_floats(blocks(threads).largest())));
  }

  void run(const Buffers& b) const override {
    const ConvShape& s = shape_;
    const int threads = b.pool->threads();
    const TileBlocks blocks = this->blocks(threads);
    const size_t most = blocks.largest();
    float* const zeros = reinterpret_cast<float*>(b.scratch);
    float* const squares = zeros + whole_vectors(x_.channels);
    std::fill_n(zeros, x_.channels, 0.f);
    Winograd w{};
    w.height = x_.height, w.width = x_.width, w.channels = x_.channels;
    w.out_height = s.out_height, w.out_width = s.out_width, w.out_channels = s.out_channels;
    w.x = b.in(kX), w.x_stride = x_.pixel, w.zeros = zeros;
    w.y = b.out(), w.y_stride = s.y_pixel;
    if (x_.stride == 1) {
      w.top = static_cast<ptrdiff_t>(s.top), w.left = static_cast<ptrdiff_t>(s.left);
    } else {
      make_squares(w.x, squares, *b.pool);
      w.x = squares;
    }
    w.tiles_across = tiles_across_, w.tiles_down = tiles_down_;
    w.patch_stride = whole_vectors(x_.channels), w.product_stride = whole_vectors(s.out_channels);
    w.patch_plane = plane(most * w.patch_stride), w.product_plane = plane(most * w.product_stride);
    w.patches = squares + square_floats(), w.products = w.patches + products_ * w.patch_plane;
    w.epilogue = epilogue(b);
    if (shared(threads)) return run_shared(w, *b.pool);
    const size_t work = products_ * x_.channels * s.out_channels * most;
    b.pool->parallel(blocks.count(), grain_of(work), [&](size_t begin, size_t end, int thread) {
      Winograd own = w;
      own.patches += static_cast<size_t>(thread) * block_floats(most);
      own.products += static_cast<size_t>(thread) * block_floats(most);
      for (size_t block = begin; block < end; ++block) {
        const size_t first = blocks.begin(block), last = blocks.begin(block + 1);
        kernel_.gather(own, first, first, last);
        multiply(own, 0, units(), last - first);
        kernel_.scatter(own, first, first, last);
      }
    });
  }

 private:
  static constexpr size_t kNarrowPanel = 16, kWidePanel = 64;

  static size_t whole_vectors(size_t floats) { return Unstrided::whole_vectors(floats); }

  size_t square_floats() const {
    if (x_.stride == 1) return 0;
    return checked_product(shape_.images * x_.height, x_.width * x_.pixel);
  }

  void make_squares(const float* x, float* squares, Pool& pool) const {
    const auto make = shape_.channels == 2   ? palm::make_squares<2>
                      : shape_.channels == 3 ? palm::make_squares<3>
                                             : palm::make_squares<4>;
    pool.parallel(shape_.images * x_.height, grain_of(x_.width * x_.channels * kWorkOfTouching),
                  [&](size_t begin, size_t end, int) { make(shape_, x_, x, squares, begin, end); });
  }

  // Few tiles: then the threads share out their products and all read different weights.
  bool shared(int threads) const {
    constexpr size_t kFewTiles = 16;
    return threads > 1 && tiles_ < kFewTiles * static_cast<size_t>(threads);
  }

  void run_shared(const Winograd& w, Pool& pool) const {
    const size_t transform = 8 * products_, in = x_.channels, out = shape_.out_channels;
    pool.parallel(tiles_, grain_of(in * transform),
                  [&](size_t begin, size_t end, int) { kernel_.gather(w, 0, begin, end); });
    pool.parallel(units(), grain_of(products_ * panels_ * tiles_ * in * panel_ / units()),
                  [&](size_t begin, size_t end, int) { multiply(w, begin, end, tiles_); });
    pool.parallel(tiles_, grain_of(out * transform),
                  [&](size_t begin, size_t end, int) { kernel_.scatter(w, 0, begin, end); });
  }

  // What is kept of a block stays in L2.
  TileBlocks blocks(int threads) const {
    if (shared(threads)) return {tiles_, tiles_, 1, 1};
    constexpr size_t kL2Floats = 128 << 10, kLeastTiles = 28, kMostTiles = 56;
    const size_t floats = products_ * (x_.channels + shape_.out_channels);
    return {tiles_, std::clamp(kL2Floats / floats, kLeastTiles, kMostTiles), threads,
            gemm_.first_panel(std::min(panel_, shape_.out_channels)).tile_rows};
  }

  // An odd number of cache lines: whole pages apart, the products would share cache sets.
  static size_t plane(size_t floats) { return floats / 16 % 2 ? floats : floats + 16; }

  size_t block_floats(size_t tiles) const {
    return products_ * (plane(checked_product(tiles, whole_vectors(x_.channels))) +
                        plane(checked_product(tiles, whole_vectors(shape_.out_channels))));
  }

  // What of the products is computed at once: a panel of all of them, or of one.
  size_t units() const { return keeps_taps_ ? panels_ : products_ * panels_; }

  void multiply(const Winograd& w, size_t begin, size_t end, size_t count) const {
    const size_t floats = x_.taps * x_.taps * x_.channels * panel_;
    for (size_t i = begin; i < end; ++i) {
      if (keeps_taps_) kernel_.multiply(w, count, weights_.floats() + i * floats, i * panel_);
      else multiply_panel(w, i, count);
    }
  }

  // `index` counts panels of all products.
  void multiply_panel(const Winograd& w, size_t index, size_t count) const {
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

  // By panels, and some channels at a time: what is read of them stays in L1.
  void pack_taps(const float* w) {
    constexpr size_t kChannels = 32, kTaps = 9, kKernels = Winograd::kKernels;
    const size_t in = x_.channels;
    float apart[kTaps * kChannels * kKernels];
    weights_ = Arena(checked_product(in * kTaps, shape_.out_channels) * sizeof(float));
    float* to = weights_.floats();
    for (size_t i = 0; i < panels_; ++i, w += kKernels * kTaps * in) {
      for (size_t c = 0; c < in; c += kChannels) {
        const size_t channels = std::min(kChannels, in - c), stride = kChannels * kKernels;
        for (size_t t = 0; t < kTaps; ++t)
          gemm_.pack(channels, kKernels, w + t * in + c, 1, kTaps * in, apart + t * stride);
        kernel_.pack(apart, stride, channels, to);
        to += channels * kTaps * kKernels;
      }
    }
  }

  // The kernels [m][taps][taps][channels] for squares, zeros where theirs have no tap.
  std::vector<float> square_weights(const float* w) const {
    const size_t taps = shape_.kernel_height, in = shape_.channels;
    std::vector<float> all(checked_product(x_.taps * x_.taps * x_.channels, shape_.out_channels));
    for (size_t m = 0; m < shape_.out_channels; ++m) {
      for (size_t ky = 0; ky < taps; ++ky) {
        for (size_t kx = 0; kx < taps; ++kx, w += in) {
          const size_t tap = (m * x_.taps + ky / 2) * x_.taps + kx / 2;
          std::copy_n(w, in, all.data() + tap * x_.channels + (ky % 2 * 2 + kx % 2) * in);
        }
      }
    }
    return all;
  }

  void pack(const float* weights) {
    const size_t in = x_.channels, out = shape_.out_channels, taps = x_.taps * x_.taps;
    std::vector<float> squares;
    if (x_.stride != 1) weights = (squares = square_weights(weights)).data();
    panel_floats_ = whole_vectors(gemm_.pack(in, panel_, nullptr, panel_, 1, nullptr));
    weights_ = Arena(checked_product(panel_floats_, products_ * panels_) * sizeof(float));
    for (size_t i = 0; i < panels_; ++i) {
      const size_t end = std::min(out, (i + 1) * panel_);
      float* to = weights_.floats() + i * panel_floats_;
      for (size_t m = i * panel_; m < end;) {
        const GemmPanel part = gemm_.first_panel(end - m);
        pack_part(weights + m * taps * in, part, to);
        to += in * part.width;
        m += part.columns;
      }
    }
  }

  // Squares of kernels by channels: of each kernel and tap a cache line is read once.
  void pack_part(const float* w, const GemmPanel& part, float* to) const {
    constexpr size_t kKernels = Winograd::kKernels, kChannels = 16, kMostTaps = 16;
    constexpr size_t kMostProducts = 64;
    const size_t in = x_.channels, taps = x_.taps * x_.taps, stride = panels_ * panel_floats_;
    float kernels[kMostTaps * kChannels * kKernels], transformed[kMostProducts * kKernels];
    for (size_t c = 0; c < in; c += kChannels) {
      const size_t channels = std::min(kChannels, in - c);
      for (size_t m = 0; m < part.width; m += kKernels) {
        const size_t count = std::min(kKernels, part.width - m);
        for (size_t k = 0; k < kKernels; ++k) {
          const bool is_there = m + k < part.columns;
          for (size_t t = 0; t < taps; ++t) {
            const float* const from = is_there ? w + ((m + k) * taps + t) * in + c : nullptr;
            float* const column = kernels + t * kChannels * kKernels + k;
            for (size_t i = 0; i < channels; ++i) column[i * kKernels] = from ? from[i] : 0.f;
          }
        }
        for (size_t i = 0; i < channels; ++i) {
          kernel_.weights(kernels + i * kKernels, kChannels * kKernels, transformed);
          float* const place = to + (c + i) * part.width + m;
          for (size_t p = 0; p < products_; ++p)
            std::copy_n(transformed + p * kKernels, count, place + p * stride);
        }
      }
    }
  }

  Unstrided x_;
  GemmKernel gemm_;
  WinogradKernel kernel_;
  size_t products_, tiles_across_, tiles_down_, tiles_, panel_, panels_, panel_floats_ = 0;
  bool keeps_taps_;
  Arena weights_;
};

}  // namespace

bool winograd_keeps_taps(const ConvShape& s, size_t tile, uint32_t isa) {
  constexpr size_t kFar = 1 << 19;
  const size_t patch = tile + s.kernel_height - 1;
  return s.stride_x == 1 && find_winograd(isa, tile, s.kernel_height).multiply &&
         s.out_channels % Winograd::kKernels == 0 &&
         patch * patch * s.channels * s.out_channels >= kFar;
}

StepPtr make_winograd_conv(const Node& node, const ConvShape& shape, size_t tile) {
  return std::make_unique<WinogradConv>(node, shape, tile);
}

bool suits_winograd(const ConvShape& s, size_t tile) {
  if (s.kernel_height != s.kernel_width || s.dilation_y != 1 || s.dilation_x != 1 ||
      s.groups != 1 || s.stride_y != s.stride_x)
    return false;
  constexpr size_t kLeastChannels = 8;  // a vector, where those are not masked
  if (s.stride_x == 1) {
    return (tile == 2 || tile == 4 || tile == 6) && s.channels >= kLeastChannels &&
           s.kernel_height == 3;
  }
  // Those that read pictures.
  return tile == 4 && s.stride_x == 2 && s.x_pixel == s.channels && s.channels >= 2 && s.channels <= 4 &&
         s.kernel_height >= 5 && s.kernel_height <= 8;
}

}  // namespace palm
