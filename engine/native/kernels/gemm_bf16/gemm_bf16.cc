#include "kernels/gemm_bf16/gemm_bf16.h"

#include "base/error.h"

namespace palm {

GemmBf16Kernel find_gemm_bf16(uint32_t isa) {
#define PALM_KERNEL(need, name) \
  if ((isa & (need)) == (need)) return {&name, &pack_##name, &count_##name};
#include "kernels/gemm_bf16/kernels.inc"
#undef PALM_KERNEL
  (void)isa;
  fail(Fault::kUnsupported, "this instruction set has no 16-bit products");
}

}  // namespace palm
