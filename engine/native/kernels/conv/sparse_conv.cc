#include <algorithm>

#include "kernels/conv/conv.h"
#include "kernels/sparse/sparse.h"

namespace palm {
namespace {

// 1x1 convolution by the weights that are not zero.
class SparseConv : public Conv {
 public:
  SparseConv(const Node& node, const ConvShape& shape)
      : Conv(node, shape), kernel_(find_sparse(node.isa)) {
    const float* w = node.constant(kWeights, node.in(kWeights).count);
    if (shape.nonzeros > UINT32_MAX ||
        checked_product(shape.channels, kernel_.block.stride) > UINT32_MAX)
      fail(Fault::kUnsupported, "too many weights: %zu", shape.nonzeros);
    weights_ = Arena(shape.nonzeros * sizeof(SparseWeight));
    ends_ = Arena(shape.out_channels * sizeof(uint32_t));
    auto* to = reinterpret_cast<SparseWeight*>(weights_.data());
    auto* const ends = reinterpret_cast<uint32_t*>(ends_.data());
    const SparseWeight* const begin = to;
    for (size_t m = 0; m < shape.out_channels; ++m, w += shape.channels) {
      for (size_t k = 0; k < shape.channels; ++k)
        if (w[k] != 0) *to++ = {static_cast<uint32_t>(k * kernel_.block.stride), w[k]};
      ends[m] = static_cast<uint32_t>(to - begin);
    }
  }

  size_t scratch_bytes(int threads) const override {
    return (shared(threads) ? blocks() : static_cast<size_t>(threads)) * lines_bytes();
  }

  void run(const Buffers& b) const override {
    const ConvShape& s = shape_;
    const size_t work = (s.nonzeros + s.channels * kWorkOfTouching) * kernel_.block.width;
    if (!shared(b.pool->threads())) {
      b.pool->parallel(blocks(), grain_of(work), [&](size_t begin, size_t end, int thread) {
        for (size_t i = begin; i < end; ++i) {
          const Sparse block = block_of(b, i, static_cast<size_t>(thread));
          kernel_.gather(block);
          kernel_.multiply(block, 0, s.out_channels);
        }
      });
      return;
    }
    b.pool->parallel(blocks(), grain_of(s.channels * kernel_.block.width * kWorkOfTouching),
                     [&](size_t begin, size_t end, int) {
                       for (size_t i = begin; i < end; ++i) kernel_.gather(block_of(b, i, i));
                     });
    const size_t parts = (s.out_channels + kPart - 1) / kPart;
    b.pool->parallel(blocks() * parts, grain_of(work / parts), [&](size_t begin, size_t end, int) {
      for (size_t i = begin; i < end; ++i) {
        const size_t block = i / parts, first = i % parts * kPart;
        kernel_.multiply(block_of(b, block, block), first, std::min(first + kPart, s.out_channels));
      }
    });
  }

 private:
  static constexpr size_t kPart = 16;  // channels: a cache line of y

  size_t blocks() const { return (shape_.pixels + kernel_.block.width - 1) / kernel_.block.width; }
  size_t lines_bytes() const { return shape_.channels * kernel_.block.stride * sizeof(float); }

  // Few blocks: the threads share out their channels as well.
  bool shared(int threads) const {
    constexpr size_t kFew = 8;
    return threads > 1 && blocks() < kFew * static_cast<size_t>(threads);
  }

  // place: of its lines in the scratch.
  Sparse block_of(const Buffers& b, size_t block, size_t place) const {
    const ConvShape& s = shape_;
    const size_t first = block * kernel_.block.width;
    return {std::min(kernel_.block.width, s.pixels - first),
            s.channels,
            s.out_channels,
            b.in(kX) + first * s.x_pixel,
            s.x_pixel,
            reinterpret_cast<float*>(b.scratch + place * lines_bytes()),
            reinterpret_cast<const SparseWeight*>(weights_.data()),
            reinterpret_cast<const uint32_t*>(ends_.data()),
            b.out() + first * s.y_pixel,
            s.y_pixel,
            epilogue(b).from_pixel(first)};
  }

  SparseKernel kernel_;
  Arena weights_, ends_;
};

}  // namespace

StepPtr make_sparse_conv(const Node& node, const ConvShape& shape) {
  return std::make_unique<SparseConv>(node, shape);
}

bool suits_sparse(const ConvShape& s) {
  return s.is_matrix() && s.groups == 1 && s.nonzeros <= s.channels * s.out_channels / 2;
}

}  // namespace palm
