#pragma once
#include <string>
#include <vector>

#include "base/arena.h"
#include "costs.h"
#include "kernels/activation.h"
#include "kernels/window.h"

namespace palm {

constexpr Operands kConvOperands{
    "image/pixels weights bias slope residual/pixels gate second_image/image", "y/pixels"};
constexpr size_t kX = kConvOperands.input("image"), kWeights = kConvOperands.input("weights"),
                 kBias = kConvOperands.input("bias"), kSlope = kConvOperands.input("slope"),
                 kResidual = kConvOperands.input("residual"), kGate = kConvOperands.input("gate"),
                 kSecond = kConvOperands.input("second_image");

// The sizes of a convolution, checked against the node's tensors. The weights are [m][ky][kx][c],
// or [ky][kx][c][m] with the attribute outputs_last: float32 GEMMs read these as they lie. x, the
// residual and y may be some channels of wider pixels each. The channels of a matrix may be those of x
// and of kSecond behind them, or may each be multiplied by a number of kGate, which the weights are
// instead.
struct ConvShape : Window {
  explicit ConvShape(const Node& node);

  // A product of the image as it lies by the weights.
  bool is_matrix() const {
    return taps() == 1 && stride_x == 1 && stride_y == 1 && top == 0 && left == 0 &&
           out_height == height && out_width == width;
  }

  size_t images, height, width, channels, out_height, out_width, out_channels;
  size_t x_pixel, y_pixel;  // numbers from a pixel to the next
  size_t images_read;  // that the channels are of: x, or x and kSecond
  bool is_gated;
  size_t groups, group_channels, group_out, pixels;
  size_t nonzeros;  // weights, at most: of those that are known and mostly zeros they are counted
  bool outputs_last;
};

// What all ways of convolving share.
class Conv : public Step {
 public:
  Conv(const Node& node, const ConvShape& shape);

  // Whether products are of Bf16; tensors may then be, too.
  static bool is_bf16(const Node& node);

  bool reads(size_t i) const override {
    return i == kX || i == kResidual || i >= kGate || (i == kWeights && shape_.outputs_last);
  }

  // The residual is read where y is about to be written.
  bool in_place(size_t i) const override {
    return i == kResidual && residual_channels_ == shape_.out_channels;
  }

 protected:
  Epilogue epilogue(const Buffers& b) const;

  // The weights as [m][taps][c] with zeros between: c padded to `channels`, and taps * channels to
  // `depth`. room: for those that are not so yet.
  const float* weights(const Node& node, size_t channels, size_t depth,
                       std::vector<float>* room) const;

  ConvShape shape_;

 private:
  Activation activation_;
  std::vector<float> bias_;
  size_t residual_channels_, residual_pixel_ = 0;
};

// The ways of convolving, and what each can do.
StepPtr make_depthwise_conv(const Node& node, const ConvShape& shape);
bool suits_depthwise(const ConvShape& shape);  // all channels of y
// Winograd's way in tiles of `tile` by `tile` outputs.
StepPtr make_winograd_conv(const Node& node, const ConvShape& shape, size_t tile);
bool suits_winograd(const ConvShape& shape, size_t tile);
// Whether weights are many enough to be kept as they are, and brought into the other basis as they
// are multiplied: they take, and have to be fetched as, a quarter of the memory then.
bool winograd_keeps_taps(const ConvShape& shape, size_t tile, uint32_t isa);
StepPtr make_row_conv(const Node& node, const ConvShape& shape);
bool suits_rows(const ConvShape& shape);
StepPtr make_gemm_conv(const Node& node, const ConvShape& shape);  // any
// By the weights that are not zero. What x has beside the others, be it NaN, is not looked at.
StepPtr make_sparse_conv(const Node& node, const ConvShape& shape);
bool suits_sparse(const ConvShape& shape);

// The same with products of Bf16.
StepPtr make_depthwise_conv_bf16(const Node& node, const ConvShape& shape);
StepPtr make_row_conv_bf16(const Node& node, const ConvShape& shape);
StepPtr make_gemm_conv_bf16(const Node& node, const ConvShape& shape);
StepPtr make_winograd_conv_bf16(const Node& node, const ConvShape& shape);  // tiles of 4
bool suits_winograd_bf16(const ConvShape& shape);

// The ways that suit a step, the kernel's own choice first, then by what is expected. What is less
// exact than the step's attribute `precision` allows is left out.
std::vector<Candidate> conv_candidates(const Node& node);

}  // namespace palm
