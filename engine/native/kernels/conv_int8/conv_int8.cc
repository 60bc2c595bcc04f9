#include "kernels/conv_int8/conv_int8.h"

#include <algorithm>
#include <cmath>

namespace palm {
namespace {

// Larger ones would leave int32 on the way.
constexpr size_t kMostProducts = 1 << 16;
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
  return {from, from + count};
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

ConvInt8::ConvInt8(const Node& node, const ConvShape& shape) : shape_(shape) {
  const size_t channels = shape.out_channels, depth = shape.taps() * shape.group_channels;
  node.in(kInt8X, DType::kUint8);
  const Tensor& y = node.out(0, DType::kUint8);
  if (depth > kMostProducts) fail(Fault::kUnsupported, "sums of %zu products", depth);
  x_zero_ = static_cast<uint8_t>(byte_attr(node, "x_zero", 0));
  bias_.assign(channels, 0);
  if (node.input(kInt8Bias)) {
    const Tensor& bias = node.in(kInt8Bias, DType::kInt32);
    std::copy_n(static_cast<const int32_t*>(constant_of(bias, channels)), channels, bias_.data());
  }
  const int8_t* w = weights(node);
  for (int32_t& bias : bias_) {
    int32_t sum = 0;
    for (size_t i = 0; i < depth; ++i) sum += *w++;
    bias = static_cast<int32_t>(static_cast<uint32_t>(bias) -
                                static_cast<uint32_t>(sum) * static_cast<uint32_t>(x_zero_));
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
  e.residual_scale = checked_scale(node.attrs.number("z_scale", 0.f));
  e.residual_zero = static_cast<float>(byte_attr(node, "z_zero", 0));
  if (e.low > e.high || e.inner_low > e.inner_high) fail(Fault::kModel, "low above high");
  if (!node.input(kInt8Residual)) return;
  const Tensor& z = node.in(kInt8Residual, DType::kUint8);
  if (z.shape != y.shape)
    fail(Fault::kModel, "residual %s for %s", z.text().c_str(), y.text().c_str());
  e.residual_stride = channels;
}

EpilogueInt8 ConvInt8::epilogue(const Buffers& b) const {
  EpilogueInt8 e = epilogue_;
  if (e.residual_stride) e.residual = static_cast<const uint8_t*>(b.inputs[kInt8Residual]);
  return e;
}

namespace {

float clip(float v, float low, float high) { return std::min(std::max(v, low), high); }

class PlainConv : public ConvInt8 {
 public:
  PlainConv(const Node& node, const ConvShape& shape) : ConvInt8(node, shape) {
    const int8_t* const w = weights(node);
    weights_.assign(w, w + node.any_in(kInt8Weights).count);
  }

  void run(const Buffers& b) const override {
    const ConvShape& s = shape_;
    b.pool->parallel(s.pixels, grain_of(s.taps() * s.group_channels * s.out_channels),
                     [&](size_t begin, size_t end, int) {
                       for (size_t i = begin; i < end; ++i) pixel(b, i);
                     });
  }

 private:
  void pixel(const Buffers& b, size_t i) const {
    const ConvShape& s = shape_;
    const EpilogueInt8 e = epilogue(b).from_pixel(i);
    uint8_t* const y = this->y(b) + i * s.out_channels;
    for (size_t m = 0; m < s.out_channels; ++m) {
      const int32_t sum =
          static_cast<int32_t>(sum_at(x(b), i, m) + static_cast<uint32_t>(e.bias[m]));
      float v = static_cast<float>(sum) * e.scale[m];
      if (e.inner_scale != 0)
        v = std::nearbyint(clip(v, e.inner_low, e.inner_high)) * e.inner_scale;
      if (e.residual) {
        const float z = (static_cast<float>(e.residual[m]) - e.residual_zero) * e.residual_scale;
        v = v + z;
      }
      if (e.slope && !(v > 0)) v = v * e.slope[m];
      y[m] = static_cast<uint8_t>(static_cast<int32_t>(std::nearbyint(clip(v, e.low, e.high))) +
                                  e.zero);
    }
  }

  uint32_t sum_at(const uint8_t* x, size_t i, size_t m) const {
    const ConvShape& s = shape_;
    const size_t ox = i % s.out_width, oy = i / s.out_width % s.out_height;
    const uint8_t* const image =
        x + i / s.out_width / s.out_height * s.height * s.width * s.channels;
    const int8_t* w = weights_.data() + m * s.taps() * s.group_channels;
    int32_t sum = 0;
    for (size_t ky = 0; ky < s.kernel_height; ++ky) {
      const size_t iy = oy * s.stride_y + ky * s.dilation_y - s.top;
      for (size_t kx = 0; kx < s.kernel_width; ++kx, w += s.group_channels) {
        const size_t ix = ox * s.stride_x + kx * s.dilation_x - s.left;
        const bool inside = iy < s.height && ix < s.width;
        const uint8_t* const from =
            image + (iy * s.width + ix) * s.channels + m / s.group_out * s.group_channels;
        for (size_t c = 0; c < s.group_channels; ++c) sum += (inside ? from[c] : x_zero_) * w[c];
      }
    }
    return static_cast<uint32_t>(sum);
  }

  std::vector<int8_t> weights_;
};

}  // namespace

StepPtr make_conv_int8(const Node& node) {
  return std::make_unique<PlainConv>(node, ConvShape(node));
}

}  // namespace palm
