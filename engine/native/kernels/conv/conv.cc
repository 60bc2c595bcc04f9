// Convolution: depthwise by its own kernel, 3x3 by Winograd, wide images as a GEMM for each row,
// the rest as a GEMM of the image itself or of patches gathered from it.
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

namespace {

struct Algorithm {
  const char* name;
  bool (*suits)(const ConvShape& shape);
  bool (*pays)(const ConvShape& shape);  // where it suits: is it faster than those below?
  StepPtr (*make)(const Node& node, const ConvShape& shape);
};

bool always(const ConvShape&) { return true; }
bool never(const ConvShape&) { return false; }

template <size_t kTile>
bool suits_tile(const ConvShape& shape) {
  return suits_winograd(shape, kTile);
}

template <size_t kTile>
StepPtr make_tiles(const Node& node, const ConvShape& shape) {
  return make_winograd_conv(node, shape, kTile);
}

// Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, arXiv 1509.09308. F(4,3) is
// off by about 3e-6 of the range of y.
bool winograd_pays(const ConvShape& s) {
  constexpr size_t kLeastChannels = 32, kLeastPixels = 49;
  return std::min(s.channels, s.out_channels) >= kLeastChannels &&
         s.out_height * s.out_width >= kLeastPixels;
}

bool rows_pay(const ConvShape& s) {
  constexpr size_t kLeastWidth = 16;
  return s.out_width >= kLeastWidth && s.taps() > 1;
}

// In order of preference.
constexpr Algorithm kAlgorithms[] = {
    {"depthwise", suits_depthwise, always, make_depthwise_conv},
    {"winograd_4", suits_tile<4>, winograd_pays, make_tiles<4>},
    {"winograd_6", suits_tile<6>, never, make_tiles<6>},
    {"winograd_2", suits_tile<2>, never, make_tiles<2>},
    {"rows", suits_rows, rows_pay, make_row_conv},
    {"gemm", always, always, make_gemm_conv},
};

// Those that suit the shape, the best first.
std::vector<const Algorithm*> suitable(const ConvShape& shape) {
  std::vector<const Algorithm*> list;
  for (const Algorithm& algorithm : kAlgorithms)
    if (algorithm.suits(shape)) list.push_back(&algorithm);
  std::stable_partition(list.begin(), list.end(),
                        [&](const Algorithm* each) { return each->pays(shape); });
  return list;
}

}  // namespace

std::vector<std::string> conv_algorithms(const Node& node) {
  std::vector<std::string> names;
  for (const Algorithm* each : suitable(ConvShape(node))) names.push_back(each->name);
  return names;
}

StepPtr make_conv(const Node& node) {
  const ConvShape shape(node);
  const std::string asked = node.attrs.text("algorithm", "");
  std::string known;
  for (const Algorithm* each : suitable(shape)) {
    if (asked.empty() || asked == each->name) return each->make(node, shape);
    known += std::string(known.empty() ? "" : ", ") + each->name;
  }
  fail(Fault::kModel, "attribute algorithm: expected one of %s, got %.40s", known.c_str(),
       asked.c_str());
}

}  // namespace palm
