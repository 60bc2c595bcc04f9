#include "base/simd.h"

#include "kernels/level_int8.h"
#include "kernels/quantize/quantize.h"

namespace palm {

void PALM_FN(quantize_f32)(size_t n, const float* x, float scale, float zero, float low, float high,
                           float* y) {
  const F32 s = F32::set(scale), z = F32::set(zero), least = F32::set(low), most = F32::set(high);
  for (size_t i = 0; i < n; i += F32::lanes) {
    const size_t k = n - i < F32::lanes ? n - i : F32::lanes;
    const F32 q = min(max(round(F32::load(x + i, k) / s) + z, least), most);
    ((q - z) * s).store(y + i, k);
  }
}

void PALM_FN(to_bytes)(size_t n, const float* x, float scale, int32_t zero, uint8_t* y) {
  const ToByte to{static_cast<float>(-zero), static_cast<float>(255 - zero), zero};
  for (size_t i = 0; i < n; ++i) y[i] = byte_of(x[i] / scale, to);
}

void PALM_FN(from_bytes)(size_t n, const uint8_t* x, float scale, int32_t zero, float* y) {
  for (size_t i = 0; i < n; ++i) y[i] = static_cast<float>(x[i] - zero) * scale;
}

}  // namespace palm
