#include "kernels/gemm_int8/gemm_int8.h"

#include "kernels/gemm/share.h"

namespace palm {

GemmInt8Kernel find_gemm_int8(uint32_t isa) {
#define PALM_KERNEL(need, name) \
  if ((isa & (need)) == (need)) \
    return {&name, &pack_##name, &count_##name, &panel_##name, &offset_##name};
#include "kernels/gemm_int8/kernels.inc"
#undef PALM_KERNEL
}

void run_gemm(const GemmInt8Kernel& kernel, const GemmInt8& gemm, Pool& pool) {
  SharedGemm(kernel, gemm).run(pool, gemm.k / 4 + 1);
}

}  // namespace palm
