#include "base/simd.h"

#include "kernels/max_unpool/max_unpool.h"

namespace palm {
namespace {

// `n` channels of a pixel; `inside` becomes 0 where an index is not in [0, places).
template <bool kWhole>
PALM_INLINE void spread(const Unpool& u, size_t at, float* y, size_t n, F32 places, F32& inside) {
  const F32 zero = F32::set(0.f);
  const F32 x = kWhole ? F32::load(u.x + at) : F32::load(u.x + at, n);
  const F32 index = kWhole ? F32::load(u.indices + at) : F32::load(u.indices + at, n);
  inside = less(index, zero, zero, less(index, places, inside, zero));
  const F32 whole = floor(index);
  for (size_t k = 0; k < u.columns; ++k) {
    const F32 column = F32::set(static_cast<float>(u.first + k));
    const F32 v = less(whole, column, zero, less(column, whole, zero, x));
    if (kWhole) v.store(y + k * u.n);
    else v.store(y + k * u.n, n);
  }
}

}  // namespace

bool PALM_FN(unpool_f32)(const Unpool& unpool) {
  const Unpool u = unpool;
  const F32 places = F32::set(static_cast<float>(u.places));
  F32 inside = F32::set(1.f);
  for (size_t i = 0; i < u.pixels; ++i) {
    float* const y = u.y + i * u.columns * u.n;
    size_t c = 0;
    for (; c + F32::lanes <= u.n; c += F32::lanes)
      spread<true>(u, i * u.n + c, y + c, F32::lanes, places, inside);
    if (c < u.n) spread<false>(u, i * u.n + c, y + c, u.n - c, places, inside);
  }
  return inside.sum() == static_cast<float>(F32::lanes);
}

}  // namespace palm
