#include "kernels/depthwise_bf16/depthwise_bf16.h"

#include "base/error.h"

namespace palm {

DepthwiseBf16Kernel find_depthwise_bf16(uint32_t isa) {
#define PALM_KERNEL(need, name) \
  if ((isa & (need)) == (need)) return {&name, &pack_##name};
#include "kernels/depthwise_bf16/kernels.inc"
#undef PALM_KERNEL
  (void)isa;
  fail(Fault::kUnsupported, "this instruction set has no 16-bit products");
}

}  // namespace palm
