#include "kernels/gemm_bf16/gemm_bf16.h"

#include "base/error.h"
#include "kernels/gemm/share.h"

namespace palm {

GemmBf16Kernel find_gemm_bf16(uint32_t isa) {
#define PALM_KERNEL(need, name) \
  if ((isa & (need)) == (need)) return {&name, &pack_##name, &count_##name, &panel_##name};
#include "kernels/gemm_bf16/kernels.inc"
#undef PALM_KERNEL
  (void)isa;
  fail(Fault::kUnsupported, "this instruction set has no 16-bit products");
}

void run_gemm(const GemmBf16Kernel& kernel, const GemmBf16& gemm, Pool& pool) {
  SharedGemm(kernel, gemm).run(pool, gemm.k / 2);
}

}  // namespace palm
