#pragma once
#include <cstddef>

#include "base/cpu.h"
#include "kernels/level_int8.h"

namespace palm {

// y[i] = to((a[i] - a_zero) * a_scale + (b[i] - b_zero) * b_scale), or, if mul,
// to((a[i] - a_zero) * (b[i] - b_zero) * a_scale), for i < n, each operation rounded to float32 and
// the product of integers exact. y may be a or b.
struct BinaryInt8 {
  bool mul;
  int32_t a_zero, b_zero;
  float a_scale, b_scale;
  ToByte to;
};
using BinaryInt8Fn = void (*)(const BinaryInt8& op, size_t n, const uint8_t* a, const uint8_t* b,
                              uint8_t* y);

#define PALM_KERNEL(need, name) \
  void name(const BinaryInt8& op, size_t n, const uint8_t* a, const uint8_t* b, uint8_t* y);
#include "kernels/binary_int8/kernels.inc"
#undef PALM_KERNEL

BinaryInt8Fn find_binary_int8(uint32_t isa);

}  // namespace palm
