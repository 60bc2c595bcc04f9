#pragma once
#include <cstddef>

#include "base/bf16.h"
#include "base/cpu.h"

namespace palm {

// The greatest of x[t][i * step + c] over t < taps and the place[t] of the first that it is, for
// i < pixels, c < n: y[i * n + c], places[i * n + c]. What is not greater than the lowest finite
// number gives that and `no_place`.
template <class T>
struct MaxPlaces {
  size_t taps, pixels, n;
  const T* const* x;
  size_t step;
  const float* place;
  float no_place;
  T *y, *places;
};

template <class T>
using MaxPlacesFn = void (*)(const MaxPlaces<T>& max);

#define PALM_KERNEL(need, name) void name(const MaxPlaces<float>& max);
#include "kernels/max_pool_indices/kernels.inc"
#undef PALM_KERNEL

#define PALM_KERNEL(need, name) void name(const MaxPlaces<Bf16>& max);
#include "kernels/max_pool_indices/bf16_kernels.inc"
#undef PALM_KERNEL

MaxPlacesFn<float> find_max_places(uint32_t isa);
// Throws Error if the set has none.
MaxPlacesFn<Bf16> find_max_places_bf16(uint32_t isa);

}  // namespace palm
