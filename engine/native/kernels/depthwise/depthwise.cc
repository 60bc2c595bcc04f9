#include "kernels/depthwise/depthwise.h"

namespace palm {

DepthwiseKernel find_depthwise(uint32_t isa) {
#define PALM_KERNEL(need, name) \
  if ((isa & (need)) == (need)) return {&name, &pack_##name};
#include "kernels/depthwise/kernels.inc"
#undef PALM_KERNEL
  PALM_EVERY_SET_WAS_TRIED;
}

}  // namespace palm
