#include "base/simd.h"

#include "kernels/resize/resize.h"

namespace palm {

namespace {

// Too few channels for vectors.
void blend_few(const Blend& blend) {
  const size_t n = blend.n;
  float* y = blend.y;
  for (size_t i = 0; i < blend.pixels; ++i, y += n) {
    const float weight = blend.weight[i];
    for (size_t c = 0; c < n; ++c)
      y[c] = blend.a[blend.from[i] + c] * (1.f - weight) + blend.b[blend.to[i] + c] * weight;
  }
}

// kVectors whole vectors a pixel.
template <size_t kVectors>
void blend_vectors(const Blend& blend) {
  const Blend d = blend;
  float* y = d.y;
  for (size_t i = 0; i < d.pixels; ++i) {
    const float* const a = d.a + d.from[i];
    const float* const b = d.b + d.to[i];
    const F32 of_b = F32::set(d.weight[i]), of_a = F32::set(1.f - d.weight[i]);
    PALM_UNROLL for (size_t v = 0; v < kVectors; ++v, y += F32::lanes) {
      fma(F32::load(b + v * F32::lanes), of_b, F32::load(a + v * F32::lanes) * of_a).store(y);
    }
  }
}

}  // namespace

void PALM_FN(resize_f32)(const Blend& blend) {
  constexpr size_t kFew = 4;
  const size_t n = blend.n;
  if (n < kFew) return blend_few(blend);
  if (n == F32::lanes) return blend_vectors<1>(blend);
  if (n == 2 * F32::lanes) return blend_vectors<2>(blend);
  float* y = blend.y;
  for (size_t i = 0; i < blend.pixels; ++i, y += n) {
    const float* const a = blend.a + blend.from[i];
    const float* const b = blend.b + blend.to[i];
    const F32 of_b = F32::set(blend.weight[i]), of_a = F32::set(1.f - blend.weight[i]);
    size_t c = 0;
    for (; c + F32::lanes <= n; c += F32::lanes)
      fma(F32::load(b + c), of_b, F32::load(a + c) * of_a).store(y + c);
    if (const size_t left = n - c)
      fma(F32::load(b + c, left), of_b, F32::load(a + c, left) * of_a).store(y + c, left);
  }
}

}  // namespace palm
