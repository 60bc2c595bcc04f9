#pragma once
// The kernel, of float or of bfloat16 in memory.
#include <cfloat>

#include "base/simd.h"
#include "kernels/max_pool_indices/max_pool_indices.h"

namespace palm {
namespace {

template <bool kWhole, class T>
PALM_INLINE void best_of(const MaxPlaces<T>& m, size_t from, size_t to, size_t n) {
  F32* const as = nullptr;
  F32 best = F32::set(-FLT_MAX), place = F32::set(m.no_place);
  for (size_t t = 0; t < m.taps; ++t) {
    const F32 x = kWhole ? load(m.x[t] + from, as) : load(m.x[t] + from, n, as);
    place = less(best, x, F32::set(m.place[t]), place);
    best = less(best, x, x, best);
  }
  if (kWhole) {
    store(best, m.y + to);
    store(place, m.places + to);
  } else {
    store(best, m.y + to, n);
    store(place, m.places + to, n);
  }
}

template <class T>
void max_places(const MaxPlaces<T>& max) {
  const MaxPlaces<T> m = max;
  for (size_t i = 0; i < m.pixels; ++i) {
    size_t c = 0;
    for (; c + F32::lanes <= m.n; c += F32::lanes)
      best_of<true>(m, i * m.step + c, i * m.n + c, F32::lanes);
    if (c < m.n) best_of<false>(m, i * m.step + c, i * m.n + c, m.n - c);
  }
}

}  // namespace
}  // namespace palm
