#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/one_step.h"
#include "kernels/pool_int8/pool_int8.h"

namespace {

using namespace palm;

struct Taps {
  size_t rows, columns, between;  // more bytes from a tap to the next than n
};

void check_sizes(const char* name, PoolInt8Fn run) {
  Random random;
  constexpr size_t kPixels = 3;
  for (size_t n = 1; n <= 300; n += n < 70 ? 1 : 23) {
    for (const Taps& taps : {Taps{1, 1, 0}, {1, 2, 0}, {3, 3, 5}, {2, 21, 0}, {5, 70, 0}}) {
      const size_t tap_step = n + taps.between, row_step = taps.columns * tap_step + 3;
      std::vector<uint8_t> x;
      for (size_t i = 0; i < kPixels * (n + 1) + taps.rows * row_step; ++i)
        x.push_back(static_cast<uint8_t>(random.between(0, 255)));
      for (bool max : {true, false}) {
        std::vector<uint8_t> y(kPixels * (n + 2), 77);
        const float factor = 1.3f / static_cast<float>(taps.rows * taps.columns);
        const ToByte to{-50.f, 190.f, 60};
        run({max, taps.rows, taps.columns, kPixels, n, x.data(), row_step, tap_step, n + 1, n + 2,
             100, factor, to, y.data()});
        for (size_t i = 0; i < y.size(); ++i) {
          const size_t c = i % (n + 2);
          int sum = 0, most = 0;
          for (size_t t = 0; t < taps.rows * taps.columns; ++t) {
            const int tap = x[i / (n + 2) * (n + 1) + t / taps.columns * row_step +
                              t % taps.columns * tap_step + (c < n ? c : 0)];
            sum += tap - 100, most = std::max(most, tap);
          }
          const float mean = std::min(std::max(static_cast<float>(sum) * factor, -50.f), 190.f);
          const int wanted = c >= n ? 77 : max ? most : static_cast<int>(std::nearbyint(mean)) + 60;
          PALM_CHECK(y[i] == wanted, "%s: n=%zu, %zux%zu: %d, expected %d", name, n, taps.rows,
                     taps.columns, y[i], wanted);
        }
      }
    }
  }
}

// A whole picture, its corners in the padding.
void check_step(uint32_t isa) {
  Random random;
  std::vector<uint8_t> x, y(2 * 3 * 4 * 5 + 1, 77);
  for (size_t i = 0; i < 2 * 5 * 6 * 5; ++i)
    x.push_back(static_cast<uint8_t>(random.between(0, 255)));
  for (const char* mode : {"max", "average"}) {
    const bool max = mode[0] == 'm';
    OneStep step("pool_int8");
    step.input(DType::kUint8, {2, 5, 6, 5}, x).attr("mode", std::string(mode));
    step.attr("kernel", Ints{3, 2}).attr("strides", Ints{2, 2}).attr("pads", Ints{1, 1, 1, 1});
    if (!max) step.attr("scale", 1.0).attr("x_zero", int64_t{9}).attr("y_zero", int64_t{9});
    step.output(DType::kUint8, {2, 3, 4, 5}).make(isa, 2).run({y.data()});
    for (size_t i = 0; i + 1 < y.size(); ++i) {
      const size_t c = i % 5, ox = i / 5 % 4, oy = i / 20 % 3, image = i / 60;
      int sum = 0, most = 0, count = 0;
      for (size_t ky = 0; ky < 3; ++ky) {
        for (size_t kx = 0; kx < 2; ++kx) {
          const size_t iy = oy * 2 + ky - 1, ix = ox * 2 + kx - 1;
          if (iy >= 5 || ix >= 6) continue;
          const int v = x[((image * 5 + iy) * 6 + ix) * 5 + c];
          sum += v - 9, most = std::max(most, v), ++count;
        }
      }
      const float mean = static_cast<float>(sum) * (1.f / static_cast<float>(count));
      const int wanted = max ? most : static_cast<int>(std::nearbyint(mean)) + 9;
      PALM_CHECK(y[i] == wanted, "pool_int8 %s: element %zu is %d, expected %d", mode, i, y[i],
                 wanted);
    }
    PALM_CHECK(y.back() == 77, "pool_int8: wrote past the end");
  }
}

}  // namespace

int main() {
#define PALM_KERNEL(need, name)                                    \
  if (runs_here(need)) check_sizes(#name, name), check_step(need); \
  else std::printf("skip %s\n", #name);
#include "kernels/pool_int8/kernels.inc"
#undef PALM_KERNEL
}
