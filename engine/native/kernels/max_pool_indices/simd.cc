#include "base/simd.h"

#include <cfloat>

#include "kernels/max_pool_indices/max_pool_indices.h"

namespace palm {
namespace {

template <bool kWhole>
PALM_INLINE void best_of(const MaxPlaces& m, size_t from, size_t to, size_t n) {
  F32 best = F32::set(-FLT_MAX), place = F32::set(m.no_place);
  for (size_t t = 0; t < m.taps; ++t) {
    const F32 x = kWhole ? F32::load(m.x[t] + from) : F32::load(m.x[t] + from, n);
    place = less(best, x, F32::set(m.place[t]), place);
    best = less(best, x, x, best);
  }
  if (kWhole) {
    best.store(m.y + to);
    place.store(m.places + to);
  } else {
    best.store(m.y + to, n);
    place.store(m.places + to, n);
  }
}

}  // namespace

void PALM_FN(max_places_f32)(const MaxPlaces& max) {
  const MaxPlaces m = max;
  for (size_t i = 0; i < m.pixels; ++i) {
    size_t c = 0;
    for (; c + F32::lanes <= m.n; c += F32::lanes)
      best_of<true>(m, i * m.step + c, i * m.n + c, F32::lanes);
    if (c < m.n) best_of<false>(m, i * m.step + c, i * m.n + c, m.n - c);
  }
}

}  // namespace palm
