#pragma once
#include <cstddef>

#include "base/bf16.h"
#include "base/cpu.h"

namespace palm {

// y[(i * columns + k) * n + c] = x[i * n + c] where the whole part of indices[i * n + c] is
// first + k, else 0; i < pixels, k < columns, c < n. False if an index is not in [0, places): then
// y is of no use.
template <class T>
struct Unpool {
  size_t pixels, columns, n;
  size_t first, places;
  const T *x, *indices;
  T* y;
};

template <class T>
using UnpoolFn = bool (*)(const Unpool<T>& unpool);

#define PALM_KERNEL(need, name) bool name(const Unpool<float>& unpool);
#include "kernels/max_unpool/kernels.inc"
#undef PALM_KERNEL

#define PALM_KERNEL(need, name) bool name(const Unpool<Bf16>& unpool);
#include "kernels/max_unpool/bf16_kernels.inc"
#undef PALM_KERNEL

UnpoolFn<float> find_unpool(uint32_t isa);
// Throws Error if the set has none.
UnpoolFn<Bf16> find_unpool_bf16(uint32_t isa);

}  // namespace palm
