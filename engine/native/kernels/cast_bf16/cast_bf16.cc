#include "kernels/cast_bf16/cast_bf16.h"

namespace palm {

CastBf16Kernel find_cast_bf16(uint32_t isa) {
#define PALM_KERNEL(need, name) \
  if ((isa & (need)) == (need)) return {&narrow_##name, &widen_##name};
#include "kernels/cast_bf16/kernels.inc"
#undef PALM_KERNEL
  (void)isa;
  return {[](const float* x, size_t count, Bf16* y) {
            for (size_t i = 0; i < count; ++i) y[i] = narrow(x[i]);
          },
          [](const Bf16* x, size_t count, float* y) {
            for (size_t i = 0; i < count; ++i) y[i] = widen(x[i]);
          }};
}

}  // namespace palm
