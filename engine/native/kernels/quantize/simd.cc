#include "base/simd.h"

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

}  // namespace palm
