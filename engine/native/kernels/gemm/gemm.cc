#include "kernels/gemm/gemm.h"

#include <algorithm>

namespace palm {

GemmKernel find_gemm(uint32_t isa) {
#define PALM_KERNEL(need, name) \
  if ((isa & (need)) == (need)) return {&name, &pack_##name, &count_##name, &panel_##name};
#include "kernels/gemm/kernels.inc"
#undef PALM_KERNEL
}

namespace {

// Enough tiles a thread that a part of a tile more or less is nothing.
constexpr size_t kManyTiles = 8;

void run_rows(const GemmKernel& kernel, Gemm gemm, size_t begin, size_t end) {
  const float* const a = gemm.a[0] + begin * gemm.lda;
  gemm.m = end - begin;
  gemm.a = &a;
  gemm.c += begin * gemm.ldc;
  gemm.epilogue = gemm.epilogue.from_pixel(begin);
  if (gemm.m) kernel.run(gemm);
}

// What lies between two of `places`: all rows of a panel after all rows of the one before, a row
// being as many places as the panel has floats in it. Tiles are not cut.
void run_places(const GemmKernel& kernel, const Gemm& gemm, size_t begin, size_t end) {
  size_t left = gemm.n, start = 0;
  for (size_t index = 0; index < gemm.last_panel && start < end; ++index) {
    const GemmPanel panel = kernel.first_panel(left);
    const auto row_at = [&](size_t place) {
      if (place <= start) return size_t{0};
      const size_t rows = (place - start) / panel.floats / panel.tile_rows * panel.tile_rows;
      return place >= start + gemm.m * panel.floats ? gemm.m : rows;
    };
    Gemm part = gemm;
    part.first_panel = index;
    part.last_panel = index + 1;
    run_rows(kernel, part, row_at(begin), row_at(end));
    left -= panel.columns;
    start += gemm.m * panel.floats;
  }
}

// Of one row.
size_t count_places(const GemmKernel& kernel, size_t n) {
  size_t floats = 0;
  while (n) {
    const GemmPanel panel = kernel.first_panel(n);
    floats += panel.floats;
    n -= panel.columns;
  }
  return floats;
}

}  // namespace

void run_gemm(const GemmKernel& kernel, const Gemm& gemm, Pool& pool) {
  if (gemm.m == 0) return;
  if (pool.threads() == 1) return kernel.run(gemm);
  const GemmPanel panel = kernel.first_panel(gemm.n);
  const size_t tiles = gemm.m / panel.tile_rows, places = count_places(kernel, gemm.n);
  if (tiles >= kManyTiles * static_cast<size_t>(pool.threads())) {
    pool.parallel(gemm.m, grain_of(gemm.k * places, panel.tile_rows),
                  [&](size_t begin, size_t end, int) { run_rows(kernel, gemm, begin, end); });
  } else {
    // With few rows it is b that takes the time.
    const size_t work = gemm.k * std::max<size_t>(1, kWorkOfTouching / gemm.m);
    pool.parallel(gemm.m * places, grain_of(work, std::min(panel.tile_rows, gemm.m) * panel.floats),
                  [&](size_t begin, size_t end, int) { run_places(kernel, gemm, begin, end); });
  }
}

}  // namespace palm
