#pragma once
#include <cstddef>

#include "base/cpu.h"
#include "kernels/level_int8.h"

namespace palm {

// y[i * y_step + c] = the maximum, or to(float(sum - taps * zero) * factor), of the taps x[i * step +
// r * row_step + t * tap_step + c], r < rows and t < columns, for i < pixels, c < n.
struct PoolInt8 {
  bool max;
  size_t rows, columns, pixels, n;
  const uint8_t* x;
  size_t row_step, tap_step, step, y_step;
  int32_t zero;
  float factor;
  ToByte to;
  uint8_t* y;

  size_t taps() const { return rows * columns; }
};
using PoolInt8Fn = void (*)(const PoolInt8& pool);

#define PALM_KERNEL(need, name) void name(const PoolInt8& pool);
#include "kernels/pool_int8/kernels.inc"
#undef PALM_KERNEL

PoolInt8Fn find_pool_int8(uint32_t isa);

}  // namespace palm
