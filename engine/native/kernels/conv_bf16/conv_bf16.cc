// Convolution with products of base/bf16.h: x, residual and y are float or narrow each, everything
// but the products is float.
#include <algorithm>
#include <cstring>

#include "kernels/cast_bf16/cast_bf16.h"
#include "kernels/conv/conv.h"
#include "kernels/depthwise_bf16/depthwise_bf16.h"
#include "kernels/gemm_bf16/gemm_bf16.h"
#include "kernels/winograd/blocks.h"
#include "kernels/winograd_bf16/winograd_bf16.h"

namespace palm {
namespace {

size_t even(size_t n) { return n + n % 2; }

bool is_narrow(const Tensor& tensor) { return tensor.dtype == kNarrow; }

class ConvBf16 : public Conv {
 public:
  ConvBf16(const Node& node, const ConvShape& shape)
      : Conv(node, shape),
        cast_(find_cast_bf16(node.isa)),
        narrow_x_(is_narrow(node.any_in(kX))),
        narrow_y_(is_narrow(node.any_out())),
        narrow_residual_(node.input(kResidual) && is_narrow(*node.input(kResidual))) {}

  // The kernels may do a tile's rows twice.
  bool in_place(size_t) const override { return false; }

 protected:
  EitherIn x(const Buffers& b) const { return {b.inputs[kX], narrow_x_}; }
  EitherOut y(const Buffers& b) const { return {b.outputs[0], narrow_y_}; }

  EpilogueBf16 epilogue(const Buffers& b) const {
    EpilogueBf16 e;
    e.plain = Conv::epilogue(b);
    e.residual_stride = e.plain.residual_stride;
    e.residual_channels = e.plain.residual_channels;
    if (e.residual_channels) e.residual = {b.inputs[kResidual], narrow_residual_};
    e.plain.residual = nullptr;
    return e;
  }

  // `count` numbers to bfloat16.
  void load(EitherIn from, size_t count, Bf16* to) const {
    if (from.is_narrow) std::memcpy(to, from.data, count * sizeof(Bf16));
    else cast_.narrow(from.floats(), count, to);
  }

 private:
  const CastBf16Kernel cast_;
  const bool narrow_x_, narrow_y_, narrow_residual_;
};

// Weights [m][taps][c] with zeros between: c padded to `channels`, and
// taps * channels to `depth`.
std::vector<float> padded(const Node& node, const ConvShape& s, size_t channels, size_t depth) {
  const float* from = node.constant(kWeights, node.in(kWeights).count);
  std::vector<float> to(checked_product(s.out_channels, depth));
  for (size_t m = 0; m < s.out_channels; ++m)
    for (size_t t = 0; t < s.taps(); ++t, from += s.group_channels)
      std::copy_n(from, s.group_channels, to.data() + m * depth + t * channels);
  return to;
}

class GemmConvBf16 : public ConvBf16 {
 public:
  GemmConvBf16(const Node& node, const ConvShape& shape)
      : ConvBf16(node, shape),
        kernel_(find_gemm_bf16(node.isa)),
        depth_(even(shape.taps() * shape.group_channels)) {
    const std::vector<float> w = padded(node, shape, shape.group_channels, depth_);
    group_numbers_ = kernel_.pack(depth_, shape.group_out, nullptr, 1, depth_, nullptr);
    weights_ = Arena(checked_product(group_numbers_, shape.groups) * sizeof(Bf16));
    for (size_t g = 0; g < shape.groups; ++g) {
      kernel_.pack(depth_, shape.group_out, w.data() + g * shape.group_out * depth_, 1, depth_,
                   weights() + g * group_numbers_);
    }
    panels_ = kernel_.count_panels(shape.group_out);
    in_place_ = is_narrow(node.any_in(kX)) && shape.taps() == 1 && shape.stride_x == 1 &&
                shape.stride_y == 1 && shape.top == 0 && shape.left == 0 &&
                shape.group_channels % 2 == 0 && shape.out_height == shape.height &&
                shape.out_width == shape.width;
    constexpr size_t kBlockNumbers = 128 << 10;
    block_ = std::max<size_t>(kLeastBlock, kBlockNumbers / (depth_ * shape.groups));
    block_ = std::max<size_t>(1, std::min(block_, shape.pixels));
  }

  size_t scratch_bytes(int threads) const override {
    return in_place_ ? 0 : static_cast<size_t>(threads) * block_bytes();
  }

  void run(const Buffers& b) const override {
    const EpilogueBf16 e = epilogue(b);
    const size_t lda = depth_ * shape_.groups;
    if (in_place_) return multiply_all(b, e, x(b).narrow(), lda);
    if (shape_.pixels <= block_) {
      Bf16* const patches = reinterpret_cast<Bf16*>(b.scratch);
      b.pool->parallel(
          shape_.pixels, grain_of(lda * kWorkOfTouching),
          [&](size_t begin, size_t end, int) { gather(x(b), patches + begin * lda, begin, end); });
      return multiply_all(b, e, patches, lda);
    }
    // Each part reads all weights, so none is small.
    Grain grain = grain_of(depth_ * shape_.out_channels / 2, kTileRows);
    grain.least = std::max(grain.least, kLeastBlock / 2);
    b.pool->parallel(shape_.pixels, grain, [&](size_t begin, size_t end, int thread) {
      Bf16* const patches =
          reinterpret_cast<Bf16*>(b.scratch + static_cast<size_t>(thread) * block_bytes());
      for (size_t i = begin; i < end; i += block_) {
        const size_t last = std::min(end, i + block_);
        gather(x(b), patches, i, last);
        multiply(b, e, patches, lda, i, last, 0, panels_);
      }
    });
  }

 private:
  static constexpr size_t kLeastBlock = 64, kTileRows = 16;

  Bf16* weights() const { return reinterpret_cast<Bf16*>(weights_.data()); }

  size_t block_bytes() const {
    return round_up(checked_product(checked_product(block_, depth_ * shape_.groups), sizeof(Bf16)));
  }

  // All pixels, shared out; where they are few, their channels are.
  void multiply_all(const Buffers& b, const EpilogueBf16& e, const Bf16* a, size_t lda) const {
    const size_t work = depth_ * shape_.out_channels / 2;
    if (shape_.pixels < kTileRows * 4) {
      b.pool->parallel(panels_, grain_of(shape_.pixels * work / panels_),
                       [&](size_t begin, size_t end, int) {
                         multiply(b, e, a, lda, 0, shape_.pixels, begin, end);
                       });
    } else {
      b.pool->parallel(shape_.pixels, grain_of(work, kTileRows),
                       [&](size_t begin, size_t end, int) {
                         multiply(b, e, a + begin * lda, lda, begin, end, 0, panels_);
                       });
    }
  }

  // Pixels [begin, end) from their patches, `a` being the first's.
  void multiply(const Buffers& b, const EpilogueBf16& e, const Bf16* a, size_t lda, size_t begin,
                size_t end, size_t first_panel, size_t last_panel) const {
    for (size_t g = 0; g < shape_.groups; ++g) {
      const Bf16* const group_a = a + g * depth_;
      kernel_.run(
          {end - begin, shape_.group_out, depth_, 1, &group_a, lda, weights() + g * group_numbers_,
           y(b) + (begin * shape_.out_channels + g * shape_.group_out), shape_.out_channels,
           first_panel, last_panel, e.from_channel(g * shape_.group_out).from_pixel(begin)});
    }
  }

  // Patches [group][ky][kx][channel] of the pixels [begin, end), each group's of an even length.
  void gather(EitherIn x, Bf16* to, size_t begin, size_t end) const {
    const ConvShape& s = shape_;
    if (s.is_matrix() && depth_ == s.channels)
      return load(x + begin * depth_, (end - begin) * depth_, to);
    const bool odd = depth_ != s.taps() * s.group_channels;
    for (size_t i = begin; i < end; ++i) {
      const size_t ox = i % s.out_width, oy = i / s.out_width % s.out_height;
      const size_t image = i / s.out_width / s.out_height * s.height * s.width * s.channels;
      for (size_t g = 0; g < s.groups; ++g) {
        for (size_t ky = 0; ky < s.kernel_height; ++ky) {
          // Wraps round to a large number above and to the left of the image.
          const size_t iy = oy * s.stride_y + ky * s.dilation_y - s.top;
          for (size_t kx = 0; kx < s.kernel_width; ++kx, to += s.group_channels) {
            const size_t ix = ox * s.stride_x + kx * s.dilation_x - s.left;
            if (iy < s.height && ix < s.width) {
              load(x + (image + (iy * s.width + ix) * s.channels + g * s.group_channels),
                   s.group_channels, to);
            } else {
              std::memset(to, 0, s.group_channels * sizeof(Bf16));
            }
          }
        }
        if (odd) *to++ = {0};
      }
    }
  }

  GemmBf16Kernel kernel_;
  size_t depth_, group_numbers_, panels_, block_;
  bool in_place_;
  Arena weights_;
};

// As RowConv. Where a segment would be odd, pixels are kept with a zero after their channels.
class RowConvBf16 : public ConvBf16 {
 public:
  RowConvBf16(const Node& node, const ConvShape& shape)
      : ConvBf16(node, shape), kernel_(find_gemm_bf16(node.isa)) {
    const bool odd = shape.kernel_width * shape.channels % 2;
    channels_ = shape.channels + odd;
    const size_t depth = shape.taps() * channels_;
    const std::vector<float> w = padded(node, shape, channels_, depth);
    const size_t numbers = kernel_.pack(depth, shape.out_channels, nullptr, 1, depth, nullptr);
    weights_ = Arena(numbers * sizeof(Bf16));
    kernel_.pack(depth, shape.out_channels, w.data(), 1, depth,
                 reinterpret_cast<Bf16*>(weights_.data()));
    panels_ = kernel_.count_panels(shape.out_channels);
    kept_rows_ = (shape.kernel_height - 1) * shape.dilation_y + 1;
    line_ = checked_product((shape.out_width - 1) * shape.stride_x + shape.kernel_width, channels_);
    line_ = round_up(line_ * sizeof(Bf16)) / sizeof(Bf16);
  }

  size_t scratch_bytes(int threads) const override {
    return checked_product(static_cast<size_t>(threads), thread_bytes());
  }

  void run(const Buffers& b) const override {
    const size_t work = shape_.out_width * shape_.out_channels * shape_.taps() * shape_.channels;
    b.pool->parallel(shape_.images * shape_.out_height, grain_of(work),
                     [&](size_t begin, size_t end, int thread) {
                       rows(b, begin, end,
                            b.scratch + static_cast<size_t>(thread) * thread_bytes());
                     });
  }

 private:
  // A line as it is in x, the kept lines, a line of zeros, and a pointer for each row of the
  // kernel.
  size_t thread_bytes() const {
    return checked_product(kept_rows_ + 2, line_ * sizeof(Bf16)) +
           round_up(shape_.kernel_height * sizeof(Bf16*));
  }

  // The first `pixels` pixels of a row.
  void load_line(EitherIn x, size_t pixels, Bf16* spare, Bf16* to) const {
    const size_t channels = shape_.channels;
    if (channels_ == channels) return load(x, pixels * channels, to);
    load(x, pixels * channels, spare);
    if (channels == 3 && pixels > 0) {
      for (; --pixels > 0; to += 4, spare += 3) {
        uint64_t pixel;
        std::memcpy(&pixel, spare, sizeof pixel);
        pixel &= 0xffffffffffffu;
        std::memcpy(static_cast<void*>(to), &pixel, sizeof pixel);
      }
      pixels = 1;
    }
    for (size_t i = 0; i < pixels; ++i, to += channels_, spare += channels)
      for (size_t c = 0; c < channels; ++c) to[c] = spare[c];
  }

  void rows(const Buffers& b, size_t begin, size_t end, char* scratch) const {
    const ConvShape& s = shape_;
    Bf16* const spare = reinterpret_cast<Bf16*>(scratch);
    Bf16* const lines = spare + line_;
    const Bf16* const zeros = lines + kept_rows_ * line_;
    const Bf16** const segments = reinterpret_cast<const Bf16**>(lines + (kept_rows_ + 1) * line_);
    std::memset(static_cast<void*>(lines), 0, (kept_rows_ + 1) * line_ * sizeof(Bf16));
    const EpilogueBf16 e = epilogue(b);
    const size_t left = s.left * channels_;
    const size_t pixels = left < line_ ? std::min(s.width, (line_ - left) / channels_) : 0;
    const size_t out_numbers = s.out_width * s.out_channels;
    size_t loaded = 0;  // padded rows before this one are in `lines`, or no more needed
    for (size_t row = begin; row < end; ++row) {
      const size_t first = row % s.out_height * s.stride_y;
      const EitherIn image = x(b) + row / s.out_height * s.height * s.width * s.channels;
      if (row == begin || first == 0) loaded = first;
      for (loaded = std::max(loaded, first); loaded < first + kept_rows_; ++loaded) {
        if (loaded - s.top < s.height) {
          load_line(image + (loaded - s.top) * s.width * s.channels, pixels, spare,
                    lines + loaded % kept_rows_ * line_ + left);
        }
      }
      for (size_t ky = 0; ky < s.kernel_height; ++ky) {
        const size_t y = first + ky * s.dilation_y;
        segments[ky] = y - s.top < s.height ? lines + y % kept_rows_ * line_ : zeros;
      }
      kernel_.run({s.out_width, s.out_channels, s.kernel_width * channels_, s.kernel_height,
                   segments, s.stride_x * channels_, reinterpret_cast<Bf16*>(weights_.data()),
                   y(b) + row * out_numbers, s.out_channels, 0, panels_,
                   e.from_pixel(row * s.out_width)});
    }
  }

  GemmBf16Kernel kernel_;
  size_t channels_, panels_, kept_rows_, line_;
  Arena weights_;
};

class DepthwiseConvBf16 : public ConvBf16 {
 public:
  DepthwiseConvBf16(const Node& node, const ConvShape& shape)
      : ConvBf16(node, shape), kernel_(find_depthwise_bf16(node.isa)) {
    const float* w = node.constant(kWeights, node.in(kWeights).count);
    const size_t height = shape.kernel_height, width = shape.kernel_width;
    weights_ = Arena(kernel_.pack(shape.out_channels, height, width, w, nullptr) * sizeof(Bf16));
    kernel_.pack(shape.out_channels, height, width, w, reinterpret_cast<Bf16*>(weights_.data()));
  }

  // With more outputs than inputs the image is first repeated that often, channel by channel.
  size_t scratch_bytes(int) const override {
    return checked_product(checked_product(pixels(), shape_.out_channels), sizeof(Bf16));
  }

  void run(const Buffers& b) const override {
    const ConvShape& s = shape_;
    EitherIn x = this->x(b);
    if (!x.is_narrow || s.group_out > 1) {
      Bf16* const copy = reinterpret_cast<Bf16*>(b.scratch);
      b.pool->parallel(pixels(), grain_of(s.out_channels * kWorkOfTouching),
                       [&](size_t begin, size_t end, int) {
                         Bf16* const to = copy + begin * s.out_channels;
                         const EitherIn from = x + begin * s.channels;
                         const size_t count = (end - begin) * s.channels;
                         if (s.group_out == 1) return load(from, count, to);
                         for (size_t i = 0; i < count; ++i) load(from + i, 1, to + i * s.group_out);
                         for (size_t i = 0; i < count * s.group_out; ++i)
                           to[i] = to[i / s.group_out * s.group_out];
                       });
      x = {copy, true};
    }
    const DepthwiseBf16 d{s.height,
                          s.width,
                          s.out_height,
                          s.out_width,
                          s.out_channels,
                          s.kernel_height,
                          s.kernel_width,
                          s.stride_y,
                          s.stride_x,
                          s.dilation_y,
                          s.dilation_x,
                          static_cast<ptrdiff_t>(s.top),
                          static_cast<ptrdiff_t>(s.left),
                          x.narrow(),
                          reinterpret_cast<const Bf16*>(weights_.data()),
                          y(b),
                          epilogue(b)};
    constexpr size_t kTileRows = 4;
    const size_t work = s.out_width * s.out_channels * s.taps();
    b.pool->parallel(s.images * s.out_height, grain_of(work, kTileRows),
                     [&](size_t begin, size_t end, int) { kernel_.run(d, begin, end); });
  }

 private:
  size_t pixels() const { return shape_.images * shape_.height * shape_.width; }

  DepthwiseBf16Kernel kernel_;
  Arena weights_;
};

// 3x3 by Winograd's way: blocks of tiles, each gathered, multiplied and scattered.
class WinogradConvBf16 : public ConvBf16 {
 public:
  WinogradConvBf16(const Node& node, const ConvShape& shape)
      : ConvBf16(node, shape),
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
    w.x = x(b), w.y = y(b);
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
  return std::make_unique<WinogradConvBf16>(node, shape);
}

bool suits_winograd_bf16(const ConvShape& s) {
  constexpr size_t kLeastChannels = 32;
  return suits_winograd(s, WinogradBf16::kTile) && s.channels % 2 == 0 &&
         std::min(s.channels, s.out_channels) >= kLeastChannels;
}

StepPtr make_depthwise_conv_bf16(const Node& node, const ConvShape& shape) {
  return std::make_unique<DepthwiseConvBf16>(node, shape);
}

StepPtr make_row_conv_bf16(const Node& node, const ConvShape& shape) {
  return std::make_unique<RowConvBf16>(node, shape);
}

StepPtr make_gemm_conv_bf16(const Node& node, const ConvShape& shape) {
  return std::make_unique<GemmConvBf16>(node, shape);
}

}  // namespace palm
