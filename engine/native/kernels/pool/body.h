#pragma once
// The kernel, of float or of bfloat16 in memory.
#include "base/simd.h"
#include "kernels/pool/pool.h"

namespace palm {
namespace {

F32 max_or_nan(F32 a, F32 b) { return if_nan(a, a, max(a, b)); }

template <bool kMax, bool kWhole, class T>
PALM_INLINE void pool(size_t taps, const T* const* x, size_t at, size_t n, F32 scale, T* y) {
  F32* const as = nullptr;
  const auto tap = [&](size_t t) { return kWhole ? load(x[t] + at, as) : load(x[t] + at, n, as); };
  F32 v = tap(0);
  for (size_t t = 1; t < taps; ++t) v = kMax ? max_or_nan(v, tap(t)) : v + tap(t);
  if (!kMax) v = v * scale;
  if (kWhole) store(v, y);
  else store(v, y, n);
}

// The channels that an own way of comparing the type has done.
template <class T>
size_t max_whole(size_t, const T* const*, size_t, size_t, T*) {
  return 0;
}

template <bool kMax, class T>
void pool_all(size_t taps, size_t pixels, size_t n, const T* const* x, size_t step, F32 scale,
              T* y) {
  for (size_t i = 0; i < pixels; ++i, y += n) {
    size_t c = kMax ? max_whole(taps, x, i * step, n, y) : 0;
    for (; c + F32::lanes <= n; c += F32::lanes)
      pool<kMax, true>(taps, x, i * step + c, F32::lanes, scale, y + c);
    if (c < n) pool<kMax, false>(taps, x, i * step + c, n - c, scale, y + c);
  }
}

template <class T>
void pool_any(bool max, size_t taps, size_t pixels, size_t n, const T* const* x, size_t step,
              float scale, T* y) {
  if (max) pool_all<true>(taps, pixels, n, x, step, F32::set(scale), y);
  else pool_all<false>(taps, pixels, n, x, step, F32::set(scale), y);
}

}  // namespace
}  // namespace palm
