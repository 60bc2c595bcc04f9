#include <algorithm>
#include <cmath>

#include "kernels/conv_int8/conv_int8.h"

namespace palm {
namespace {

float clip(float v, float low, float high) { return std::min(std::max(v, low), high); }

class DepthwiseConv : public ConvInt8 {
 public:
  DepthwiseConv(const Node& node, const ConvShape& shape) : ConvInt8(node, shape, 0) {
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

StepPtr make_depthwise_conv_int8(const Node& node, const ConvShape& shape) {
  return std::make_unique<DepthwiseConv>(node, shape);
}

bool suits_depthwise_int8(const ConvShape& s) { return suits_depthwise(s); }

}  // namespace palm
