#include "kernels/winograd/winograd.h"

namespace palm {

WinogradKernel find_winograd([[maybe_unused]] uint32_t isa, [[maybe_unused]] size_t tile,
                             [[maybe_unused]] size_t taps) {
#define PALM_KERNEL(need, name) \
  if ((isa & (need)) == (need)) return find_##name(tile, taps);
#include "kernels/winograd/kernels.inc"
#undef PALM_KERNEL
  return {};
}

}  // namespace palm
