#include <algorithm>
#include <cstring>

#include "base/arena.h"
#include "kernels/conv_int8/conv_int8.h"
#include "kernels/gemm_int8/gemm_int8.h"

namespace palm {
namespace {

// What a GEMM reads beyond a row.
constexpr size_t kBeyond = 3;

// A GEMM of the image itself or of patches gathered from it.
class GemmConv : public ConvInt8 {
 public:
  GemmConv(const Node& node, const ConvShape& shape, const GemmInt8Kernel& kernel)
      : ConvInt8(node, shape, kernel.offset()),
        kernel_(kernel),
        depth_(shape.taps() * shape.group_channels),
        lda_(depth_ * shape.groups) {
    const int8_t* const w = weights(node);
    group_bytes_ = round_up(kernel_.pack(1, depth_, shape.group_out, nullptr, depth_, nullptr));
    weights_ = Arena(checked_product(group_bytes_, shape.groups));
    for (size_t g = 0; g < shape.groups; ++g) {
      kernel_.pack(1, depth_, shape.group_out, w + g * shape.group_out * depth_, depth_,
                   weights_.data() + g * group_bytes_);
    }
    panels_ = kernel_.count_panels(shape.group_out);
    block_ = std::max<size_t>(kLeastBlock, kBlockBytes / lda_);
    block_ = std::max<size_t>(1, std::min(block_, shape.pixels));
    // Of the image itself, the last pixels' patches excepted where bytes behind it would be read.
    is_matrix_ = shape.is_matrix();
    const size_t beyond = (depth_ + kBeyond) / 4 * 4 - depth_;
    if (is_matrix_) copied_ = std::min(shape.pixels, (beyond + lda_ - 1) / lda_);
  }

  size_t scratch_bytes(int threads) const override {
    if (!is_matrix_) return checked_product(static_cast<size_t>(threads), block_bytes());
    return copied_ ? round_up(copied_ * lda_ + kBeyond) : 0;
  }

  void run(const Buffers& b) const override {
    const ConvShape& s = shape_;
    uint8_t* const patches = reinterpret_cast<uint8_t*>(b.scratch);
    if (is_matrix_) {
      multiply_all(b, x(b), s.x_pixel, s.pixels - copied_);
      if (!copied_) return;
      const size_t first = s.pixels - copied_;
      gather(x(b), patches, first, s.pixels);
      return multiply(b, epilogue(b), patches, lda_, first, s.pixels);
    }
    if (s.pixels <= block_) {
      b.pool->parallel(s.pixels, grain_of(lda_), [&](size_t begin, size_t end, int) {
        gather(x(b), patches + begin * lda_, begin, end);
      });
      return multiply_all(b, patches, lda_, s.pixels);
    }
    // Each part reads all weights, so none is small.
    Grain grain = grain_of(work(), tile_rows());
    grain.least = std::max(grain.least, kLeastBlock / 2);
    const EpilogueInt8 e = epilogue(b);
    b.pool->parallel(s.pixels, grain, [&](size_t begin, size_t end, int thread) {
      uint8_t* const own = patches + static_cast<size_t>(thread) * block_bytes();
      for (size_t i = begin; i < end; i += block_) {
        const size_t last = std::min(end, i + block_);
        gather(x(b), own, i, last);
        multiply(b, e, own, lda_, i, last);
      }
    });
  }

 private:
  static constexpr size_t kLeastBlock = 64, kBlockBytes = 256 << 10;

  size_t block_bytes() const { return round_up(checked_product(block_, lda_) + kBeyond); }
  size_t tile_rows() const { return kernel_.first_panel(shape_.group_out).tile_rows; }
  // Of a pixel.
  size_t work() const { return depth_ * shape_.out_channels / 4 + 1; }

  // The first `pixels`, shared out.
  void multiply_all(const Buffers& b, const uint8_t* a, size_t lda, size_t pixels) const {
    const EpilogueInt8 e = epilogue(b);
    const ConvShape& s = shape_;
    if (s.groups == 1) {
      return run_gemm(kernel_,
                      {pixels, s.out_channels, depth_, 1, &a, lda, weights_.data(), y(b), s.y_pixel,
                       0, panels_, e},
                      *b.pool);
    }
    b.pool->parallel(pixels, grain_of(work(), tile_rows()), [&](size_t begin, size_t end, int) {
      multiply(b, e, a + begin * lda, lda, begin, end);
    });
  }

  // Pixels [begin, end) from their patches, `a` being the first's.
  void multiply(const Buffers& b, const EpilogueInt8& e, const uint8_t* a, size_t lda,
                size_t begin, size_t end) const {
    const ConvShape& s = shape_;
    for (size_t g = 0; g < s.groups; ++g) {
      const uint8_t* const group_a = a + g * depth_;
      kernel_.run({end - begin, s.group_out, depth_, 1, &group_a, lda,
                   weights_.data() + g * group_bytes_,
                   y(b) + (begin * s.y_pixel + g * s.group_out), s.y_pixel, 0, panels_,
                   e.from_channel(g * s.group_out).from_pixel(begin)});
    }
  }

  // Patches [group][ky][kx][channel] of the pixels [begin, end).
  void gather(const uint8_t* x, uint8_t* to, size_t begin, size_t end) const {
    const ConvShape& s = shape_;
    for (size_t i = begin; i < end; ++i) {
      const size_t ox = i % s.out_width, oy = i / s.out_width % s.out_height;
      const uint8_t* const image =
          x + i / s.out_width / s.out_height * s.height * s.width * s.x_pixel;
      for (size_t g = 0; g < s.groups; ++g) {
        for (size_t ky = 0; ky < s.kernel_height; ++ky) {
          // Wraps round to a large number above and to the left of the image.
          const size_t iy = oy * s.stride_y + ky * s.dilation_y - s.top;
          for (size_t kx = 0; kx < s.kernel_width; ++kx, to += s.group_channels) {
            const size_t ix = ox * s.stride_x + kx * s.dilation_x - s.left;
            if (iy < s.height && ix < s.width) {
              std::memcpy(to, image + (iy * s.width + ix) * s.x_pixel + g * s.group_channels,
                          s.group_channels);
            } else {
              std::memset(to, x_zero_, s.group_channels);
            }
          }
        }
      }
    }
  }

  const GemmInt8Kernel kernel_;
  const size_t depth_, lda_;
  size_t group_bytes_, panels_, block_, copied_ = 0;
  bool is_matrix_;
  Arena weights_;
};

}  // namespace

StepPtr make_gemm_conv_int8(const Node& node, const ConvShape& shape) {
  return std::make_unique<GemmConv>(
      node, shape, find_gemm_int8(node.isa, 1, shape.taps() * shape.group_channels));
}

}  // namespace palm
