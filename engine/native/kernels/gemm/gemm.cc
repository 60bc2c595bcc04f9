#include "kernels/gemm/gemm.h"

#include "kernels/gemm/share.h"

namespace palm {

GemmKernel find_gemm(uint32_t isa) {
#define PALM_KERNEL(need, name) \
  if ((isa & (need)) == (need)) return {&name, &pack_##name, &count_##name, &panel_##name};
#include "kernels/gemm/kernels.inc"
#undef PALM_KERNEL
  PALM_EVERY_SET_WAS_TRIED;
}

void run_gemm(const GemmKernel& kernel, const Gemm& gemm, Pool& pool) {
  SharedGemm(kernel, gemm).run(pool, gemm.k * gemm.segments);
}

}  // namespace palm
