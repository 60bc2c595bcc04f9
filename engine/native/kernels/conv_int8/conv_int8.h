#pragma once
#include <vector>

#include "kernels/conv/conv.h"
#include "kernels/epilogue_int8.h"

namespace palm {

// The image and y: uint8 [n, h, w, c]. weights: int8 [m, kh, kw, c / group]. scale: float32 [m], x's
// scale by the weights' by 1 / y's. bias: int32 [m] in units of x's scale by the weights'; optional.
// residual: uint8 as y, or with fewer channels; optional. slope: float32 [m]; optional. All but the
// image and the residual are constant.
constexpr Operands kConvInt8Operands{"image/pixels weights scale bias residual/pixels slope",
                                     "y/pixels"};
constexpr size_t kInt8X = kConvInt8Operands.input("image"),
                 kInt8Weights = kConvInt8Operands.input("weights"),
                 kInt8Scale = kConvInt8Operands.input("scale"),
                 kInt8Bias = kConvInt8Operands.input("bias"),
                 kInt8Residual = kConvInt8Operands.input("residual"),
                 kInt8Slope = kConvInt8Operands.input("slope");

// Convolution of bytes into bytes, the same bits on every instruction set: sums of
// (x - x_zero) * w in int32, then as EpilogueInt8 says. Beyond the borders x is x_zero. y may be
// float32 instead, where there is no residual, no slope and one scale.
// Attributes, besides the window's and group: x_zero, y_zero, low = 0, high = 255; z_scale, z_zero
// of the residual, z_scale by 1 / y's scale; inner_scale = 0 (none), inner_zero, inner_low = 0,
// inner_high = 255, for a convolution whose own bytes are added: there `scale` leads to these;
// sum_scale = 0 and the like of the bytes of the sum with the residual, to which the scales before
// then lead.
class ConvInt8 : public Step {
 public:
  // offset: what the kernel takes off each byte of x, a border's included.
  ConvInt8(const Node& node, const ConvShape& shape, int32_t offset);

  bool reads(size_t i) const override { return i == kInt8X || i == kInt8Residual; }

 protected:
  // The weights as they are; constant.
  static const int8_t* weights(const Node& node);
  // Without, and with the residual.
  const EpilogueInt8& epilogue() const { return epilogue_; }
  EpilogueInt8 epilogue(const Buffers& b) const;
  const uint8_t* x(const Buffers& b) const { return static_cast<const uint8_t*>(b.inputs[kInt8X]); }
  OutInt8 y(const Buffers& b) const { return {b.outputs[0], is_float_}; }

  ConvShape shape_;
  uint8_t x_zero_;

 private:
  void add_residual(const Node& node);

  bool is_float_;
  std::vector<int32_t> bias_;
  std::vector<float> scale_, slope_;
  EpilogueInt8 epilogue_;
};

// The ways of convolving; see conv.h.
StepPtr make_depthwise_conv_int8(const Node& node, const ConvShape& shape);
bool suits_depthwise_int8(const ConvShape& shape);
StepPtr make_row_conv_int8(const Node& node, const ConvShape& shape);
bool suits_rows_int8(const ConvShape& shape);
StepPtr make_gemm_conv_int8(const Node& node, const ConvShape& shape);  // any

}  // namespace palm
