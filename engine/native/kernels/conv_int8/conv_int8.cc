#include "kernels/conv_int8/conv_int8.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/gemm_int8/gemm_int8.h"

namespace palm {
namespace {

// Larger ones would leave int32 on the way.
constexpr size_t kMostProducts = 1 << 16;
// Beyond it numbers leave int32; that sums wrap round makes none larger.
constexpr double kMostSum = 2147480000;
// No scale of bytes comes near; without it a float could overflow.
constexpr float kMostScale = 1e9f;

float checked_scale(float scale) {
  if (!(std::fabs(scale) <= kMostScale))
    fail(Fault::kModel, "a scale of %g", static_cast<double>(scale));
  return scale;
}

int32_t byte_attr(const Node& node, const char* name, int64_t missing) {
  const int64_t value = node.attrs.integer(name, missing);
  if (value < 0 || value > 255) {
    fail(Fault::kModel, "attribute %s: expected 0 to 255, got %lld", name,
         static_cast<long long>(value));
  }
  return static_cast<int32_t>(value);
}

std::vector<float> scales(const Node& node, size_t input, size_t count) {
  const float* const from = node.constant(input, count);
  if (!from) return {};
  std::for_each(from, from + count, checked_scale);
  std::vector<float> scales(from, from + count);
  scales.resize(count + GemmInt8::kSlack);
  return scales;
}

const void* constant_of(const Tensor& t, size_t count) {
  if (!t.constant) fail(Fault::kUnsupported, "expected a constant, got %s", t.text().c_str());
  if (t.count != count)
    fail(Fault::kModel, "expected %zu elements, got %s", count, t.text().c_str());
  return t.constant;
}

}  // namespace

const int8_t* ConvInt8::weights(const Node& node) {
  const Tensor& w = node.in(kInt8Weights, DType::kInt8);
  return static_cast<const int8_t*>(constant_of(w, w.count));
}

ConvInt8::ConvInt8(const Node& node, const ConvShape& shape, int32_t offset) : shape_(shape) {
  const size_t channels = shape.out_channels, depth = shape.taps() * shape.group_channels;
  node.in(kInt8X, DType::kUint8);
  is_float_ = node.any_out().dtype == DType::kFloat32;
  node.out(0, is_float_ ? DType::kFloat32 : DType::kUint8);
  if (depth > kMostProducts) fail(Fault::kUnsupported, "sums of %zu products", depth);
  const int32_t x_zero = byte_attr(node, "x_zero", 0);
  x_zero_ = static_cast<uint8_t>(x_zero);
  bias_.assign(channels + GemmInt8::kSlack, 0);
  if (node.input(kInt8Bias)) {
    const Tensor& bias = node.in(kInt8Bias, DType::kInt32);
    std::copy_n(static_cast<const int32_t*>(constant_of(bias, channels)), channels, bias_.data());
  }
  const int8_t* w = weights(node);
  std::vector<double> largest;  // sums
  for (size_t m = 0; m < channels; ++m, w += depth) {
    const int32_t sum = std::accumulate(w, w + depth, 0);
    const int32_t size =
        std::accumulate(w, w + depth, 0, [](int32_t a, int32_t b) { return a + std::abs(b); });
    largest.push_back(255. * size + std::fabs(static_cast<double>(bias_[m])));
    bias_[m] =
        static_cast<int32_t>(static_cast<uint32_t>(bias_[m]) -
                             static_cast<uint32_t>(sum) * static_cast<uint32_t>(x_zero - offset));
  }
  if (!node.input(kInt8Scale)) fail(Fault::kModel, "no scale");
  scale_ = scales(node, kInt8Scale, channels);
  slope_ = scales(node, kInt8Slope, channels);
  EpilogueInt8& e = epilogue_;
  e.bias = bias_.data();
  e.scale = scale_.data();
  if (!slope_.empty()) e.slope = slope_.data();
  e.zero = byte_attr(node, "y_zero", 0);
  e.low = static_cast<float>(byte_attr(node, "low", 0) - e.zero);
  e.high = static_cast<float>(byte_attr(node, "high", 255) - e.zero);
  e.inner_scale = checked_scale(node.attrs.number("inner_scale", 0.f));
  const int32_t inner_zero = byte_attr(node, "inner_zero", 0);
  e.inner_low = static_cast<float>(byte_attr(node, "inner_low", 0) - inner_zero);
  e.inner_high = static_cast<float>(byte_attr(node, "inner_high", 255) - inner_zero);
  e.sum_scale = checked_scale(node.attrs.number("sum_scale", 0.f));
  const int32_t sum_zero = byte_attr(node, "sum_zero", 0);
  e.sum_low = static_cast<float>(byte_attr(node, "sum_low", 0) - sum_zero);
  e.sum_high = static_cast<float>(byte_attr(node, "sum_high", 255) - sum_zero);
  if (e.low > e.high || e.inner_low > e.inner_high || e.sum_low > e.sum_high)
    fail(Fault::kModel, "low above high");
  const bool scales_once = e.inner_scale == 0 && e.sum_scale == 0 && !e.slope;
  e.is_plain = scales_once;
  for (size_t m = 0; m < channels; ++m)
    e.is_plain = e.is_plain && largest[m] * std::fabs(scale_[m]) < kMostSum;
  add_residual(node);
  if (is_float_ && (e.residual_stride || !scales_once))
    fail(Fault::kUnsupported, "more than a scale for float32");
  e.is_plain = e.is_plain && !is_float_;
}

void ConvInt8::add_residual(const Node& node) {
  EpilogueInt8& e = epilogue_;
  e.residual_scale = checked_scale(node.attrs.number("z_scale", 0.f));
  e.residual_zero = static_cast<float>(byte_attr(node, "z_zero", 0));
  if (!node.input(kInt8Residual)) return;
  const Tensor& z = node.in(kInt8Residual, DType::kUint8);
  const Tensor& y = node.any_out();
  if (z.rank() != 4 || !std::equal(z.shape.begin(), z.shape.end() - 1, y.shape.begin()) ||
      z.shape[3] > y.shape[3]) {
    fail(Fault::kModel, "residual %s for %s", z.text().c_str(), y.text().c_str());
  }
  e.residual_stride = z.pixel();
  e.residual_channels = z.shape[3];
}

EpilogueInt8 ConvInt8::epilogue(const Buffers& b) const {
  EpilogueInt8 e = epilogue_;
  if (e.residual_stride) e.residual = static_cast<const uint8_t*>(b.inputs[kInt8Residual]);
  return e;
}

PALM_OPERANDS(conv_int8, kConvInt8Operands)
StepPtr make_conv_int8(const Node& node) {
  const ConvShape shape(node);
  if (suits_depthwise_int8(shape)) return make_depthwise_conv_int8(node, shape);
  if (suits_rows_int8(shape)) return make_row_conv_int8(node, shape);
  return make_gemm_conv_int8(node, shape);
}

}  // namespace palm
