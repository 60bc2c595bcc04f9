#include "kernels/gemm/gemm.h"

namespace palm {

GemmKernel find_gemm(uint32_t isa) {
#define PALM_KERNEL(need, name) \
  if ((isa & (need)) == (need)) return {&name, &pack_##name, &count_##name};
#include "kernels/gemm/kernels.inc"
#undef PALM_KERNEL
}

}  // namespace palm
