#include "kernels/sparse/sparse.h"

namespace palm {

SparseKernel find_sparse(uint32_t isa) {
#define PALM_KERNEL(need, name) \
  if ((isa & (need)) == (need)) return {&gather_##name, &name, block_##name()};
#include "kernels/sparse/kernels.inc"
#undef PALM_KERNEL
  PALM_EVERY_SET_WAS_TRIED;
}

}  // namespace palm
