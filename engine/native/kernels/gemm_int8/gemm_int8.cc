#include "kernels/gemm_int8/gemm_int8.h"

#include "kernels/gemm/share.h"

namespace palm {

GemmInt8Kernel find_gemm_int8(uint32_t isa) {
#define PALM_KERNEL(need, name) \
  if ((isa & (need)) == (need)) \
    return {&name, &pack_##name, &count_##name, &panel_##name, &offset_##name};
#include "kernels/gemm_int8/kernels.inc"
#undef PALM_KERNEL
  PALM_EVERY_SET_WAS_TRIED;
}

GemmInt8Kernel find_gemm_int8(uint32_t isa, size_t segments, size_t k) {
  // 16 rows by 16 columns were measured to take some 50 + 8 * words cycles with AVX-512 VNNI, and
  // 105 + 16 * steps with tiles.
  const size_t words = segments * ((k + 3) / 4), steps = segments * ((k + 63) / 64);
  constexpr uint32_t kOnlyTiles = kAmxInt8 & ~kAvx512Vnni;
  return find_gemm_int8(words > 7 + 2 * steps ? isa : isa & ~kOnlyTiles);
}

void run_gemm(const GemmInt8Kernel& kernel, const GemmInt8& gemm, Pool& pool) {
  SharedGemm(kernel, gemm).run(pool, gemm.k / 4 + 1);
}

}  // namespace palm
