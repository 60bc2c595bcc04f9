#include "kernels/conv/conv.h"

#include <algorithm>
#include <array>

#include "base/bf16.h"

namespace palm {
namespace {

bool has_outputs_last(const Node& node) { return node.attrs.integer("outputs_last", 0) != 0; }

// All but those of weights that are mostly zeros count: a few are looked at first.
size_t count_nonzeros(const float* w, size_t count) {
  constexpr size_t kSamples = 128;
  const size_t step = std::max<size_t>(1, count / kSamples);
  size_t samples = 0, zeros = 0;
  for (size_t i = 0; i < count; i += step, ++samples) zeros += w[i] == 0;
  if (zeros * 2 < samples) return count;
  return count - static_cast<size_t>(std::count(w, w + count, 0.f));
}

// [m][ky][kx][c], whichever way the weights lie.
std::array<size_t, 4> kernel_shape(const Node& node) {
  const std::vector<size_t>& w = image(node.any_in(kWeights)).shape;
  if (has_outputs_last(node)) return {w[3], w[0], w[1], w[2]};
  return {w[0], w[1], w[2], w[3]};
}

}  // namespace

ConvShape::ConvShape(const Node& node)
    : Window(node, kernel_shape(node)[1], kernel_shape(node)[2]),
      outputs_last(has_outputs_last(node)) {
  const auto kernel = kernel_shape(node);
  const Tensor &x = image(node.any_in(kX)), &w = node.any_in(kWeights), &y = image(node.any_out());
  images = x.shape[0], height = x.shape[1], width = x.shape[2], channels = x.shape[3];
  out_height = y.shape[1], out_width = y.shape[2], out_channels = y.shape[3];
  x_pixel = x.pixel(), y_pixel = y.pixel();
  // Those of bytes have other inputs there.
  const bool is_bytes = x.dtype == DType::kUint8;
  const Tensor* const second = is_bytes ? nullptr : node.input(kSecond);
  const Tensor* const gate = is_bytes ? nullptr : node.input(kGate);
  images_read = second ? 2 : 1, is_gated = gate != nullptr;
  groups = size_attr({node.attrs.integer("group", 1)}, 0, "group", 1);
  constexpr size_t kVector = 8;
  const bool can_read_rows = groups == 1 && out_channels % kVector == 0 && !Conv::is_bf16(node);
  const bool fits = y.shape[0] == images && channels && out_channels && channels % groups == 0 &&
                    out_channels % groups == 0 && kernel[0] == out_channels &&
                    kernel[3] == channels / groups * images_read && x.has_pixels() && y.has_pixels() &&
                    (!outputs_last || can_read_rows) && out_height == rows(height) &&
                    out_width == columns(width);
  if (!fits) {
    fail(Fault::kModel, "%s by %s into %s does not fit its attributes", x.text().c_str(),
         w.text().c_str(), y.text().c_str());
  }
  const bool is_bf16 = Conv::is_bf16(node), is_product = groups == 1 && is_matrix();
  const bool suits_two = is_product && (!is_bf16 || (x.dtype == kNarrow && channels % 2 == 0));
  if (second && !(suits_two && second->shape == x.shape && second->dtype == x.dtype &&
                  second->has_pixels() && second->pixel() == x_pixel && !gate)) {
    fail(Fault::kModel, "%s and %s are not convolved at once", x.text().c_str(),
         second->text().c_str());
  }
  if (gate && !(is_product && !is_bf16 && gate->count == channels && gate->dtype == DType::kFloat32 &&
                images == 1)) {
    fail(Fault::kModel, "a gate of %s for %s", gate->text().c_str(), x.text().c_str());
  }
  group_channels = channels / groups;
  group_out = out_channels / groups;
  pixels = images * out_height * out_width;
  nonzeros = w.count;
  if (w.constant && w.dtype == DType::kFloat32 && is_matrix() && groups == 1 && !outputs_last)
    nonzeros = count_nonzeros(static_cast<const float*>(w.constant), w.count);
}

// These are asked of convolutions of bytes as well.
bool suits_depthwise(const ConvShape& s) { return s.groups == s.channels && s.groups > 1; }
bool suits_rows(const ConvShape& s) { return s.groups == 1 && s.dilation_x == 1 && !s.is_matrix(); }

bool Conv::is_bf16(const Node& node) {
  return node.attrs.text("precision", "high") == name_of(kNarrow);
}

Conv::Conv(const Node& node, const ConvShape& shape)
    : shape_(shape),
      activation_(node, kSlope, shape.out_channels),
      residual_channels_(residual_channels(node, kResidual, shape.out_channels)) {
  for (const Tensor* t : {node.input(kX), node.input(kResidual), node.outputs[0]}) {
    if (t && t->dtype != DType::kFloat32 && !(is_bf16(node) && t->dtype == kNarrow))
      fail(Fault::kUnsupported, "no convolution of %s", t->text().c_str());
  }
  if (residual_channels_) residual_pixel_ = node.input(kResidual)->pixel();
  const float* bias = node.constant(kBias, shape.out_channels);
  if (bias) bias_.assign(bias, bias + shape.out_channels);
}

Epilogue Conv::epilogue(const Buffers& b) const {
  Epilogue e = activation_.epilogue(bias_.empty() ? nullptr : bias_.data());
  if (residual_channels_) {
    e.residual = b.in(kResidual);
    e.residual_stride = residual_pixel_;
    e.residual_channels = residual_channels_;
  }
  return e;
}

const float* Conv::weights(const Node& node, size_t channels, size_t depth,
                           std::vector<float>* room) const {
  const ConvShape& s = shape_;
  const float* from = node.constant(kWeights, node.in(kWeights).count);
  if (depth == s.taps() * s.group_channels * s.images_read) return from;
  room->assign(checked_product(s.out_channels, depth), 0.f);
  for (size_t m = 0; m < s.out_channels; ++m)
    for (size_t t = 0; t < s.taps(); ++t, from += s.group_channels)
      std::copy_n(from, s.group_channels, room->data() + m * depth + t * channels);
  return room->data();
}

}  // namespace palm
