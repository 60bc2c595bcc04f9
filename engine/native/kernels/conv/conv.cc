// Convolution: depthwise by its own kernel, 3x3 by Winograd where that is asked for, wide images as
// a GEMM for each row, the rest as a GEMM of the image itself or of patches gathered from it.
#include "kernels/conv/conv.h"

#include <algorithm>

namespace palm {

ConvShape::ConvShape(const Node& node)
    : Window(node, image(node.in(kWeights)).shape[1], node.in(kWeights).shape[2]) {
  const Tensor &x = image(node.in(kX)), &w = node.in(kWeights), &y = image(node.out());
  images = x.shape[0], height = x.shape[1], width = x.shape[2], channels = x.shape[3];
  out_height = y.shape[1], out_width = y.shape[2], out_channels = y.shape[3];
  groups = size_attr({node.attrs.integer("group", 1)}, 0, "group", 1);
  const bool fits = y.shape[0] == images && channels && out_channels &&
                    w.shape[0] == out_channels && channels % groups == 0 &&
                    out_channels % groups == 0 && w.shape[3] == channels / groups &&
                    out_height == rows(height) && out_width == columns(width);
  if (!fits) {
    fail(Fault::kModel, "%s by %s into %s does not fit its attributes", x.text().c_str(),
         w.text().c_str(), y.text().c_str());
  }
  group_channels = channels / groups;
  group_out = out_channels / groups;
  pixels = images * out_height * out_width;
}

Conv::Conv(const Node& node, const ConvShape& shape)
    : shape_(shape), activation_(node, kSlope, shape.out_channels) {
  const float* bias = node.constant(kBias, shape.out_channels);
  if (bias) bias_.assign(bias, bias + shape.out_channels);
  if (!node.input(kResidual)) return;
  const Tensor& z = node.in(kResidual);
  const Tensor& y = node.out();
  if (z.rank() != 4 || !std::equal(z.shape.begin(), z.shape.end() - 1, y.shape.begin()) ||
      z.shape[3] > y.shape[3]) {
    fail(Fault::kModel, "residual %s for %s", z.text().c_str(), y.text().c_str());
  }
  residual_channels_ = z.shape[3];
}

Epilogue Conv::epilogue(const Buffers& b) const {
  Epilogue e = activation_.epilogue(bias_.empty() ? nullptr : bias_.data());
  if (residual_channels_) {
    e.residual = b.in(kResidual);
    e.residual_stride = e.residual_channels = residual_channels_;
  }
  return e;
}

StepPtr make_conv(const Node& node) {
  const ConvShape shape(node);
  const bool winograd = node.attrs.integer("winograd", 0) != 0;
  if (is_depthwise(shape)) return make_depthwise_conv(node, shape);
  if (winograd && suits_winograd(shape)) return make_winograd_conv(node, shape);
  if (suits_rows(shape)) return make_row_conv(node, shape);
  return make_gemm_conv(node, shape);
}

}  // namespace palm
