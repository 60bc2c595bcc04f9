#pragma once
#include <cstddef>

#include "base/cpu.h"

namespace palm {

// The greatest of x[t][i * step + c] over t < taps and the place[t] of the first that it is, for
// i < pixels, c < n: y[i * n + c], places[i * n + c]. What is not greater than the lowest finite
// number gives that and `no_place`.
struct MaxPlaces {
  size_t taps, pixels, n;
  const float* const* x;
  size_t step;
  const float* place;
  float no_place;
  float *y, *places;
};

using MaxPlacesFn = void (*)(const MaxPlaces& max);

#define PALM_KERNEL(need, name) void name(const MaxPlaces& max);
#include "kernels/max_pool_indices/kernels.inc"
#undef PALM_KERNEL

MaxPlacesFn find_max_places(uint32_t isa);

}  // namespace palm
