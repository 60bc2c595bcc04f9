#include "base/simd.h"

#include "kernels/pool/pool.h"

namespace palm {
namespace {

F32 max_or_nan(F32 a, F32 b) { return if_nan(a, a, max(a, b)); }

template <bool kMax, bool kWhole>
PALM_INLINE void pool(size_t taps, const float* const* x, size_t at, size_t n, F32 scale,
                      float* y) {
  const auto load = [&](size_t t) {
    return kWhole ? F32::load(x[t] + at) : F32::load(x[t] + at, n);
  };
  F32 v = load(0);
  for (size_t t = 1; t < taps; ++t) v = kMax ? max_or_nan(v, load(t)) : v + load(t);
  if (!kMax) v = v * scale;
  if (kWhole) v.store(y);
  else v.store(y, n);
}

template <bool kMax>
void pool_all(size_t taps, size_t pixels, size_t n, const float* const* x, size_t step, F32 scale,
              float* y) {
  for (size_t i = 0; i < pixels; ++i, y += n) {
    size_t c = 0;
    for (; c + F32::lanes <= n; c += F32::lanes)
      pool<kMax, true>(taps, x, i * step + c, F32::lanes, scale, y + c);
    if (c < n) pool<kMax, false>(taps, x, i * step + c, n - c, scale, y + c);
  }
}

}  // namespace

void PALM_FN(pool_f32)(bool max, size_t taps, size_t pixels, size_t n, const float* const* x,
                       size_t step, float scale, float* y) {
  if (max) pool_all<true>(taps, pixels, n, x, step, F32::set(scale), y);
  else pool_all<false>(taps, pixels, n, x, step, F32::set(scale), y);
}

}  // namespace palm
