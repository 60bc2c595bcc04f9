#pragma once
#include <cstddef>
#include <cstdint>

#include "base/cpu.h"
#include "kernels/level_int8.h"

namespace palm {

// Of one row between two rows of bytes: line[i] = upper[i] * (2^11 - weight) + lower[i] * weight,
// less 2^11 * zero, for i < n; and of each of `pixels` pixels between two of the line, which begin
// at from[p] and to[p]: y = to_byte(float(line * (2^11 - weights[p]) + line * weights[p]) *
// factor), of `channels`.
struct ResizeInt8 {
  size_t n;
  const uint8_t *upper, *lower;
  int32_t weight;
  int32_t* line;
  size_t pixels, channels;
  const size_t *from, *to;
  const int32_t* weights;
  uint8_t* y;
  int32_t zero;
  float factor;
  ToByte to_byte;
};
using ResizeInt8Fn = void (*)(const ResizeInt8& row);

#define PALM_KERNEL(need, name) void name(const ResizeInt8& row);
#include "kernels/resize_int8/kernels.inc"
#undef PALM_KERNEL

ResizeInt8Fn find_resize_int8(uint32_t isa);

}  // namespace palm
