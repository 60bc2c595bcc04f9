#include <algorithm>

#include "base/check.h"
#include "base/one_step.h"
#include "kernels/resize/resize.h"

namespace {

using namespace palm;

void check_sizes(const char* name, ResizeFn run) {
  Random random;
  for (size_t n = 0; n <= 70; ++n) {
    const Vector a = random.floats(3 * n), b = random.floats(3 * n);
    const size_t from[2] = {n, 0}, to[2] = {2 * n, n};
    const float weight[2] = {0.3f, 1.f};
    Vector y(2 * n + 1, 77.f);
    run({2, n, a.data(), b.data(), from, to, weight, y.data()});
    for (size_t i = 0; i < 2 * n; ++i) {
      const size_t p = i / n, c = i % n;
      const double expected = a[from[p] + c] * (1.0 - weight[p]) + b[to[p] + c] * weight[p];
      PALM_CHECK(is_close(y[i], expected, 1e-6), "%s: n=%zu i=%zu: %g", name, n, i, y[i]);
    }
    PALM_CHECK(y.back() == 77.f, "%s: wrote past n=%zu", name, n);
  }
}

void check_images(const char* name, uint32_t isa) {
  Random random;
  for (size_t channels : {1, 3, 16, 21}) {
    const size_t height = 5, width = 7, oh = 9, ow = 11, count = 2 * oh * ow * channels;
    const Vector x = random.floats(2 * height * width * channels), fy = random.floats(oh),
                 fx = random.floats(ow);
    std::vector<int32_t> tables[4];
    for (int t = 0; t < 4; ++t)
      for (size_t i = 0; i < (t < 2 ? oh : ow); ++i)
        tables[t].push_back(static_cast<int32_t>(random.between(0, (t < 2 ? height : width) - 1)));
    const auto &y0 = tables[0], &y1 = tables[1], &x0 = tables[2], &x1 = tables[3];
    const auto at = [&](size_t k, int32_t iy, int32_t ix) {
      const size_t row = k / channels / ow / oh * height + static_cast<size_t>(iy);
      return static_cast<double>(
          x[(row * width + static_cast<size_t>(ix)) * channels + k % channels]);
    };
    const Vector other = random.floats(count);
    for (int kind = 0; kind < 4; ++kind) {
      const bool linear = kind % 2, adds = kind > 1;
      OneStep step("resize");
      step.input({2, height, width, channels}, x);
      const auto table = [&](const std::vector<int32_t>& first, const std::vector<int32_t>& second,
                             const Vector& weights) {
        step.input(DType::kInt32, {first.size()}, first, true);
        if (linear) step.input(DType::kInt32, {second.size()}, second, true);
        if (linear) step.input({weights.size()}, weights, true);
        if (!linear) step.no_input().no_input();
      };
      table(y0, y1, fy), table(x0, x1, fx);
      step.output({2, oh, ow, channels}).attr("mode", std::string(linear ? "linear" : "nearest"));
      if (adds) {
        step.input({2, oh, ow, channels}, other);
        step.attr("activation", std::string("clip")).attr("activation_params", Floats{-0.5, 1.0});
      }
      for (int threads : {1, 3}) {
        Vector y(count + 1, 77.f);
        step.make(isa, threads).run(y.data(), count);
        for (size_t k = 0; k < count; ++k) {
          const size_t ox = k / channels % ow, oy = k / channels / ow % oh;
          double expected = at(k, y0[oy], x0[ox]);
          if (linear) {
            const auto mix = [&](int32_t ix) {
              return at(k, y0[oy], ix) * (1 - fy[oy]) + at(k, y1[oy], ix) * fy[oy];
            };
            expected = mix(x0[ox]) * (1 - fx[ox]) + mix(x1[ox]) * fx[ox];
          }
          if (adds) expected = std::min(std::max(expected + other[k], -0.5), 1.0);
          PALM_CHECK(is_close(y[k], expected, 1e-5), "%s: y[%zu] is %g, expected %g", name, k, y[k],
                     expected);
        }
        PALM_CHECK(y[count] == 77.f, "%s: wrote past the end", name);
      }
    }
  }
}

}  // namespace

int main() {
#define PALM_KERNEL(need, name)                                             \
  if (runs_here(need)) check_sizes(#name, name), check_images(#name, need); \
  else std::printf("skip %s\n", #name);
#include "kernels/resize/kernels.inc"
#undef PALM_KERNEL
}
