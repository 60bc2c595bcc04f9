#include "base/simd.h"

#include "kernels/peak/peak.h"

namespace palm {

size_t PALM_FN(peak_f32)(size_t rounds, float* sum) {
  // Two units of four cycles each want eight at once.
  constexpr size_t kChains = F32::registers >= 32 ? 24 : 12;
  volatile float half = 0.5f;
  const F32 a = F32::set(half), b = F32::set(half + half);
  F32 chain[kChains];
  PALM_UNROLL
  for (size_t i = 0; i < kChains; ++i) chain[i] = F32::set(static_cast<float>(i));
  for (size_t round = 0; round < rounds; ++round) {
    PALM_UNROLL
    for (size_t i = 0; i < kChains; ++i) chain[i] = fma(chain[i], a, b);
  }
  PALM_UNROLL
  for (size_t i = 0; i < kChains; ++i) *sum += chain[i].sum();
  return rounds * kChains * F32::lanes * 2;
}

}  // namespace palm
