#include <cmath>

#include "kernels/binary/binary.h"
#include "kernels/conv/float_conv.h"

namespace palm {
namespace {

// 1x1 convolution of an image whose channels are first multiplied by a gate each, as squeeze and
// excitation has it (Hu, Shen and Sun, arXiv 1709.01507): the weights are multiplied instead, which
// are fewer than the image's numbers.
class GatedConv : public FloatConv {
 public:
  GatedConv(const Node& node, const ConvShape& shape)
      : FloatConv(node, shape), kernel_(find_gemm(node.isa)), multiply_(find_binary(node.isa)) {
    const size_t k = shape.channels, n = shape.out_channels;
    const Tensor& gate = node.in(kGate);
    if (gate.count != k || shape.images != 1 || shape.groups != 1 || !shape.is_matrix())
      fail(Fault::kModel, "a gate of %s for %s", gate.text().c_str(), node.in(kX).text().c_str());
    floats_ = packs() ? kernel_.pack(k, n, nullptr, 1, k, nullptr) : k * n;
    if (!packs()) return;
    weights_ = Arena(floats_ * sizeof(float));
    const float* const w = node.constant(kWeights, node.in(kWeights).count);
    kernel_.pack(k, n, w, 1, k, weights_.floats());
  }

  // Weights of its own for each thread.
  size_t scratch_bytes(int threads) const override {
    return checked_product(static_cast<size_t>(threads), round_up(floats_ * sizeof(float)));
  }

  void run(const Buffers& b) const override {
    const ConvShape& s = shape_;
    const size_t tile = kernel_.first_panel(s.out_channels).tile_rows;
    const Epilogue e = epilogue(b);
    b.pool->parallel(
        s.pixels, grain_of(s.channels * s.out_channels, tile),
        [&](size_t begin, size_t end, int thread) {
          const float* const x = this->x(b) + begin * s.channels;
          Gemm gemm = product(
              b, {end - begin, s.out_channels, s.channels, 1, &x, s.channels, weights_.floats(),
                  y(b) + begin * s.y_channels, s.y_channels, 0,
                  kernel_.count_panels(s.out_channels), e.from_pixel(begin)});
          float* const gated = reinterpret_cast<float*>(
              b.scratch + static_cast<size_t>(thread) * round_up(floats_ * sizeof(float)));
          multiply(gemm.b, b.in(kGate), gated);
          gemm.b = gated;
          kernel_.run(gemm);
        });
  }

 private:
  void multiply(const float* weights, const float* gate, float* to) const {
    for (size_t left = shape_.out_channels; left;) {
      const GemmPanel panel = kernel_.first_panel(left);
      const size_t width = packs() ? panel.width : left;
      multiply_({BinaryOp::kMul, shape_.channels, width, weights, static_cast<ptrdiff_t>(width), 1,
                 gate, 1, 0, to, -INFINITY, INFINITY});
      weights += shape_.channels * width, to += shape_.channels * width;
      left -= packs() ? panel.columns : left;
    }
  }

  GemmKernel kernel_;
  BinaryFn multiply_;
  size_t floats_;
  Arena weights_;
};

}  // namespace

StepPtr make_gated_conv(const Node& node, const ConvShape& shape) {
  return std::make_unique<GatedConv>(node, shape);
}

}  // namespace palm
