#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/one_step.h"
#include "kernels/resize_int8/resize_int8.h"

namespace {

using namespace palm;

// Random places and weights; channels around the lengths of vectors.
void check(const char* name, uint32_t isa) {
  Random random;
  for (size_t channels : {1, 2, 3, 4, 5, 15, 16, 17, 24, 31, 70}) {
    const size_t height = 4, width = 5, out_height = 6, out_width = 7;
    std::vector<uint8_t> x, y(out_height * out_width * channels + 1, 77);
    for (size_t i = 0; i < height * width * channels; ++i)
      x.push_back(static_cast<uint8_t>(random.between(0, 255)));
    const auto numbers = [&](size_t count, size_t most) {
      std::vector<int32_t> list;
      for (size_t i = 0; i < count; ++i)
        list.push_back(static_cast<int32_t>(random.between(0, most)));
      return list;
    };
    const auto rows = numbers(2 * out_height, height - 1), by_row = numbers(out_height, 2048);
    const auto columns = numbers(2 * out_width, width - 1), by_column = numbers(out_width, 2048);
    OneStep step("resize_int8");
    step.input(DType::kUint8, {1, height, width, channels}, x);
    step.input(DType::kInt32, {out_height, 2}, rows, true);
    step.input(DType::kInt32, {out_height}, by_row, true);
    step.input(DType::kInt32, {out_width, 2}, columns, true);
    step.input(DType::kInt32, {out_width}, by_column, true);
    step.attr("scale", 1.25).attr("x_zero", int64_t{60}).attr("y_zero", int64_t{99});
    step.attr("low", int64_t{30}).output(DType::kUint8, {1, out_height, out_width, channels});
    step.make(isa, 2).run({y.data()});
    for (size_t i = 0; i + 1 < y.size(); ++i) {
      const size_t c = i % channels, ox = i / channels % out_width, oy = i / channels / out_width;
      const auto at = [&](size_t r, size_t k) {
        const auto iy = static_cast<size_t>(rows[2 * oy + r]);
        const auto ix = static_cast<size_t>(columns[2 * ox + k]);
        return x[(iy * width + ix) * channels + c] - 60;
      };
      const int v = by_row[oy], u = by_column[ox];
      const int sum = (at(0, 0) * (2048 - u) + at(0, 1) * u) * (2048 - v) +
                      (at(1, 0) * (2048 - u) + at(1, 1) * u) * v;
      const float steps = static_cast<float>(sum) * (1.25f / 4194304.f);
      const float clipped = std::min(std::max(steps, -69.f), 156.f);
      const int wanted = static_cast<int>(std::nearbyint(clipped)) + 99;
      PALM_CHECK(y[i] == wanted, "%s: element %zu is %d, expected %d", name, i, y[i], wanted);
    }
    PALM_CHECK(y.back() == 77, "%s: wrote past the end", name);
  }
}

}  // namespace

int main() {
#define PALM_KERNEL(need, name)            \
  if (runs_here(need)) check(#name, need); \
  else std::printf("skip %s\n", #name);
#include "kernels/resize_int8/kernels.inc"
#undef PALM_KERNEL
}
