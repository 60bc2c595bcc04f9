#include "base/simd.h"
#include "kernels/resize/resize.h"

namespace palm {

void PALM_FN(resize_f32)(size_t n, const float* a, const float* b, float weight, float* y) {
  const F32 of_b = F32::set(weight), of_a = F32::set(1.f - weight);
  size_t i = 0;
  for (; i + F32::lanes <= n; i += F32::lanes)
    fma(F32::load(b + i), of_b, F32::load(a + i) * of_a).store(y + i);
  if (i < n) fma(F32::load(b + i, n - i), of_b, F32::load(a + i, n - i) * of_a).store(y + i, n - i);
}

}  // namespace palm
