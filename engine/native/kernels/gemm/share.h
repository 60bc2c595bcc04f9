#pragma once
#include <algorithm>
#include <type_traits>

#include "kernels/gemm/gemm.h"

namespace palm {

// All of a GEMM, of one segment or two and every panel, its tiles shared out to the pool. Kernel,
// Product: GemmKernel and Gemm, or what else has their members.
template <class Kernel, class Product>
class SharedGemm {
 public:
  SharedGemm(const Kernel& kernel, const Product& gemm) : kernel_(kernel), gemm_(gemm) {}

  // work: of a row and a packed column, as for grain_of.
  void run(Pool& pool, size_t work) const {
    if (gemm_.m == 0) return;
    if (pool.threads() == 1) return kernel_.run(gemm_);
    const GemmPanel panel = kernel_.first_panel(gemm_.n);
    const size_t places = count_places();
    if (goes_by_rows(panel.tile_rows, static_cast<size_t>(pool.threads()))) {
      pool.parallel(gemm_.m, grain_of(work * places, panel.tile_rows),
                    [&](size_t begin, size_t end, int) { run_rows(gemm_, begin, end); });
    } else {
      // With few rows it is b that takes the time.
      work *= std::max<size_t>(1, kWorkOfTouching / gemm_.m);
      pool.parallel(gemm_.m * places,
                    grain_of(work, std::min(panel.tile_rows, gemm_.m) * panel.width),
                    [&](size_t begin, size_t end, int) { run_places(begin, end); });
    }
  }

 private:
  static constexpr size_t kMostSegments = 2;

  // Rows are what most kernels share out, so a thread finds in its cache what it wrote before. But
  // each part reads all of b, and none should be much larger than the others: parts are whole tiles.
  bool goes_by_rows(size_t tile_rows, size_t threads) const {
    constexpr size_t kLeastTiles = 2;
    const size_t most = (gemm_.m + tile_rows * threads - 1) / (tile_rows * threads) * tile_rows;
    return gemm_.m >= kLeastTiles * tile_rows * threads && most * threads <= gemm_.m + gemm_.m / 8;
  }

  void run_rows(Product part, size_t begin, size_t end) const {
    std::remove_const_t<std::remove_pointer_t<decltype(part.a)>> a[kMostSegments];
    for (size_t s = 0; s < part.segments; ++s) a[s] = part.a[s] + begin * part.lda;
    part.m = end - begin;
    part.a = a;
    part.c = part.c + begin * part.ldc;
    part.epilogue = part.epilogue.from_pixel(begin);
    if (part.m) kernel_.run(part);
  }

  // What lies between two of `places`: all rows of a panel after all rows of the one before, a row
  // being as many places as the panel is wide. Tiles are not cut.
  void run_places(size_t begin, size_t end) const {
    size_t left = gemm_.n, start = 0;
    auto behind = gemm_.b;  // the panel at hand
    for (size_t index = 0; index < gemm_.last_panel && start < end; ++index) {
      const GemmPanel panel = kernel_.first_panel(left);
      const auto row_at = [&](size_t place) {
        if (place <= start) return size_t{0};
        const size_t rows = (place - start) / panel.width / panel.tile_rows * panel.tile_rows;
        return place >= start + gemm_.m * panel.width ? gemm_.m : rows;
      };
      Product part = gemm_;
      part.first_panel = index;
      part.last_panel = index + 1;
      if constexpr (std::is_same_v<Product, Gemm>) {
        const size_t floats = panel.width * gemm_.k * gemm_.segments;
        behind += floats;
        if (start + gemm_.m * panel.width < end && !gemm_.ldb)
          part.next = {reinterpret_cast<const char*>(behind), floats * sizeof(float)};
      }
      run_rows(part, row_at(begin), row_at(end));
      left -= panel.columns;
      start += gemm_.m * panel.width;
    }
  }

  // Of one row.
  size_t count_places() const {
    size_t width = 0;
    for (size_t left = gemm_.n; left;) {
      const GemmPanel panel = kernel_.first_panel(left);
      width += panel.width;
      left -= panel.columns;
    }
    return width;
  }

  const Kernel& kernel_;
  const Product& gemm_;
};

}  // namespace palm
