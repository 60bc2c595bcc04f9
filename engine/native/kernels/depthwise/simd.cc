#include "base/simd.h"
#include "kernels/depthwise/depthwise.h"

namespace palm {
namespace {

// One pixel's channels, any kernel.
void pixel(const Depthwise& d, size_t row, size_t ox) {
  const Epilogue& e = d.epilogue;
  const size_t image = row / d.out_height, taps = d.kernel_height * d.kernel_width;
  const ptrdiff_t y0 = static_cast<ptrdiff_t>(row % d.out_height * d.stride_y) - d.top;
  const ptrdiff_t x0 = static_cast<ptrdiff_t>(ox * d.stride_x) - d.left;
  const float* const x = d.x + image * d.height * d.width * d.channels;
  const size_t out = row * d.out_width + ox;
  float* const y = d.y + out * d.channels;
  for (size_t c = 0; c < d.channels; c += F32::lanes) {
    const size_t left = d.channels - c, n = left < F32::lanes ? left : F32::lanes;
    F32 sum = e.bias ? F32::load(e.bias + c, n) : F32::set(0.f);
    for (size_t ky = 0; ky < d.kernel_height; ++ky) {
      const size_t iy = static_cast<size_t>(y0) + ky * d.dilation_y;
      if (iy >= d.height) continue;
      for (size_t kx = 0; kx < d.kernel_width; ++kx) {
        const size_t ix = static_cast<size_t>(x0) + kx * d.dilation_x;
        if (ix >= d.width) continue;
        const F32 w = F32::load(d.weights + c * taps + (ky * d.kernel_width + kx) * F32::lanes);
        sum = fma(F32::load(x + (iy * d.width + ix) * d.channels + c, n), w, sum);
      }
    }
    if (e.residual && e.residual_channels > c) {
      const size_t rest = e.residual_channels - c;
      sum = sum + F32::load(e.residual + out * e.residual_stride + c, rest < n ? rest : n);
    }
    if (e.slope) {
      const F32 zero = F32::set(0.f);
      sum = fma(min(zero, sum), F32::load(e.slope + c, n), max(zero, sum));
    } else {
      sum = min(F32::set(e.high), max(F32::set(e.low), sum));
    }
    sum.store(y + c, n);
  }
  if (e.post) e.post(e.post_data, 1, d.channels, y, d.channels);
}

}  // namespace

void PALM_FN(depthwise_f32)(const Depthwise& d, size_t begin, size_t end) {
  for (size_t row = begin; row < end; ++row)
    for (size_t ox = 0; ox < d.out_width; ++ox) pixel(d, row, ox);
}

// Blocks of a vector's channels: [channels / lanes][taps][lanes].
size_t PALM_SUFFIX(pack_depthwise_f32, PALM_ISA_NAME)(size_t channels, size_t taps,
                                                      const float* weights, float* packed) {
  const size_t blocks = (channels + F32::lanes - 1) / F32::lanes;
  for (size_t i = 0; packed && i < blocks * taps * F32::lanes; ++i) {
    const size_t c = i / (taps * F32::lanes) * F32::lanes + i % F32::lanes;
    packed[i] = c < channels ? weights[c * taps + i / F32::lanes % taps] : 0.f;
  }
  return blocks * taps * F32::lanes;
}

}  // namespace palm
