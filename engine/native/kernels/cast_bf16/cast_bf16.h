#pragma once
#include "base/bf16.h"
#include "base/cpu.h"

namespace palm {

struct CastBf16Kernel {
  void (*narrow)(const float* x, size_t count, Bf16* y);
  void (*widen)(const Bf16* x, size_t count, float* y);
};

#define PALM_KERNEL(need, name)                              \
  void narrow_##name(const float* x, size_t count, Bf16* y); \
  void widen_##name(const Bf16* x, size_t count, float* y);
#include "kernels/cast_bf16/kernels.inc"
#undef PALM_KERNEL

// Any set will do.
CastBf16Kernel find_cast_bf16(uint32_t isa);

}  // namespace palm
