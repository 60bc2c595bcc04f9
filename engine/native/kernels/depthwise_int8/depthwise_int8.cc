#include "kernels/depthwise_int8/depthwise_int8.h"

namespace palm {

DepthwiseInt8Kernel find_depthwise_int8(uint32_t isa) {
#define PALM_KERNEL(need, name) \
  if ((isa & (need)) == (need)) return {&name, &pack_##name, &offset_##name};
#include "kernels/depthwise_int8/kernels.inc"
#undef PALM_KERNEL
  PALM_EVERY_SET_WAS_TRIED;
}

}  // namespace palm
