#pragma once
// The kernel, of float or of bfloat16 in memory.
#include "base/simd.h"
#include "kernels/max_unpool/max_unpool.h"

namespace palm {
namespace {

// `n` channels of a pixel; `inside` becomes 0 where an index is not in [0, places).
template <bool kWhole, class T>
PALM_INLINE void spread(const Unpool<T>& u, size_t at, T* y, size_t n, F32 places, F32& inside) {
  const F32 zero = F32::set(0.f);
  F32* const as = nullptr;
  const F32 x = kWhole ? load(u.x + at, as) : load(u.x + at, n, as);
  const F32 index = kWhole ? load(u.indices + at, as) : load(u.indices + at, n, as);
  inside = less(index, zero, zero, less(index, places, inside, zero));
  const F32 whole = floor(index);
  for (size_t k = 0; k < u.columns; ++k) {
    const F32 column = F32::set(static_cast<float>(u.first + k));
    const F32 v = less(whole, column, zero, less(column, whole, zero, x));
    if (kWhole) store(v, y + k * u.n);
    else store(v, y + k * u.n, n);
  }
}

// The channels that an own way of comparing the type has done.
template <class T>
size_t spread_whole(const Unpool<T>&, size_t, T*, F32&) {
  return 0;
}

template <class T>
bool unpool_any(const Unpool<T>& unpool) {
  const Unpool<T> u = unpool;
  const F32 places = F32::set(static_cast<float>(u.places));
  F32 inside = F32::set(1.f);
  for (size_t i = 0; i < u.pixels; ++i) {
    T* const y = u.y + i * u.columns * u.n;
    size_t c = spread_whole(u, i * u.n, y, inside);
    for (; c + F32::lanes <= u.n; c += F32::lanes)
      spread<true>(u, i * u.n + c, y + c, F32::lanes, places, inside);
    if (c < u.n) spread<false>(u, i * u.n + c, y + c, u.n - c, places, inside);
  }
  return inside.sum() == static_cast<float>(F32::lanes);
}

}  // namespace
}  // namespace palm
