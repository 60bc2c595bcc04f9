#include "kernels/gemm/gemm.h"

namespace palm {

GemmKernel find_gemm(uint32_t isa) {
#define PALM_KERNEL(need, name) \
  if ((isa & (need)) == (need)) return {&name, &pack_##name, &count_##name};
#include "kernels/gemm/kernels.inc"
#undef PALM_KERNEL
}

void run_gemm(const GemmKernel& kernel, const Gemm& gemm, Pool& pool) {
  constexpr size_t kFewRows = 32, kTileRows = 16;
  if (gemm.m == 0) return;
  const bool by_rows = gemm.m >= kFewRows;
  const size_t panels = gemm.last_panel, count = by_rows ? gemm.m : panels;
  const size_t grain =
      by_rows ? grain_of(gemm.k * gemm.n, kTileRows) : grain_of(gemm.m * gemm.k * gemm.n / panels);
  pool.parallel(count, grain, [&](size_t begin, size_t end, int) {
    if (!by_rows) {
      Gemm part = gemm;
      part.first_panel = begin;
      part.last_panel = end;
      return kernel.run(part);
    }
    const float* const a = gemm.a[0] + begin * gemm.lda;
    kernel.run({end - begin, gemm.n, gemm.k, 1, &a, gemm.lda, gemm.b, gemm.c + begin * gemm.ldc,
                gemm.ldc, 0, panels, gemm.epilogue.from_pixel(begin)});
  });
}

}  // namespace palm
