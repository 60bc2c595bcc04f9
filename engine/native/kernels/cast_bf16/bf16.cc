#include "base/simd.h"
#include "kernels/cast_bf16/cast_bf16.h"

namespace palm {

void PALM_SUFFIX(narrow_cast_bf16, PALM_ISA_NAME)(const float* x, size_t count, Bf16* y) {
  size_t i = 0;
  for (; i + F32::lanes <= count; i += F32::lanes) store(F32::load(x + i), y + i);
  store(F32::load(x + i, count - i), y + i, count - i);
}

void PALM_SUFFIX(widen_cast_bf16, PALM_ISA_NAME)(const Bf16* x, size_t count, float* y) {
  size_t i = 0;
  F32* const as = nullptr;
  for (; i + F32::lanes <= count; i += F32::lanes) load(x + i, as).store(y + i);
  load(x + i, count - i, as).store(y + i, count - i);
}

}  // namespace palm
