#pragma once
#include <cstddef>

#include "base/cpu.h"
#include "kernels/level_int8.h"

namespace palm {

// y[i * n + c] = the maximum, or to(float(sum - taps * zero) * factor), of x[t][i * step + c] over
// t < taps, for i < pixels, c < n.
struct PoolInt8 {
  bool max;
  size_t taps, pixels, n;
  const uint8_t* const* x;
  size_t step;
  int32_t zero;
  float factor;
  ToByte to;
  uint8_t* y;
};
using PoolInt8Fn = void (*)(const PoolInt8& pool);

#define PALM_KERNEL(need, name) void name(const PoolInt8& pool);
#include "kernels/pool_int8/kernels.inc"
#undef PALM_KERNEL

PoolInt8Fn find_pool_int8(uint32_t isa);

}  // namespace palm
