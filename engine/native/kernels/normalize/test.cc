#include <cmath>

#include "base/check.h"
#include "base/one_step.h"
#include "kernels/normalize/normalize.h"

namespace {

using namespace palm;

void check_sizes(const char* name, NormalizeFn run) {
  Random random;
  for (size_t n = 1; n <= 70; ++n) {
    for (size_t rows : {1, 7}) {
      for (size_t groups : {1, 3}) {
        const size_t width = groups * n, count = rows * width;
        const bool centre = n % 2, plain = n % 3 == 0;
        Vector x = random.floats(count), y(count + 1, 77.f), scratch(2 * width + 1, 77.f);
        for (float& v : x) v += 2.f;
        const Vector scale = random.floats(width), bias = random.floats(width);
        run({rows, groups, n, width, x.data(), plain ? nullptr : scale.data(),
             plain ? nullptr : bias.data(), 1e-3f, centre, y.data(), scratch.data()});
        for (size_t g = 0; g < groups; ++g) {
          const auto each = [&](auto f) {
            for (size_t i = 0; i < rows; ++i)
              for (size_t j = 0; j < n; ++j) f(i * width + g * n + j, g * n + j);
          };
          const double size = static_cast<double>(rows * n);
          double mean = 0, variance = 0;
          if (centre) each([&](size_t i, size_t) { mean += x[i] / size; });
          each([&](size_t i, size_t) { variance += (x[i] - mean) * (x[i] - mean) / size; });
          each([&](size_t i, size_t column) {
            const double normal = (x[i] - mean) / std::sqrt(variance + 1e-3);
            const double expected = plain ? normal : normal * scale[column] + bias[column];
            PALM_CHECK(is_close(y[i], expected, 1e-5), "%s: %zu x %zu x %zu: %g for %g", name, rows,
                       groups, n, y[i], expected);
          });
        }
        PALM_CHECK(y[count] == 77.f && scratch.back() == 77.f, "%s: wrote past n=%zu", name, n);
        run({rows, groups, n, width, x.data(), plain ? nullptr : scale.data(),
             plain ? nullptr : bias.data(), 1e-3f, centre, x.data(), scratch.data()});
        for (size_t i = 0; i < count; ++i) PALM_CHECK(x[i] == y[i], "%s: in place", name);
      }
    }
  }
}

void check_step(const char* name, uint32_t isa) {
  Random random;
  for (size_t rows : {1, 5}) {
    const Vector x = random.floats(4 * rows * 24), scale = random.floats(24);
    Vector y(x.size() + 1, 77.f), y3 = y, expected(x.size()), scratch(48);
    for (size_t i = 0; i < 4; ++i) {
      const size_t at = i * rows * 24;
      find_normalize(isa)({rows, 3, 8, 24, x.data() + at, scale.data(), nullptr, 1e-5f, true,
                           expected.data() + at, scratch.data()});
    }
    for (int threads : {1, 3}) {
      OneStep step("normalize");
      step.input({4, rows, 24}, x).input({24}, scale, true).no_input().output({4, rows, 24});
      step.attr("items", int64_t{4}).attr("rows", static_cast<int64_t>(rows));
      step.attr("groups", int64_t{3}).attr("n", int64_t{8}).attr("epsilon", 1e-5);
      step.make(isa, threads).run(y.data(), x.size());
      for (size_t i = 0; i < x.size(); ++i) PALM_CHECK(y[i] == expected[i], "%s: step", name);
      PALM_CHECK(y.back() == 77.f, "%s: wrote past the end", name);
    }
  }
}

}  // namespace

int main() {
#define PALM_KERNEL(need, name)                                           \
  if (runs_here(need)) check_sizes(#name, name), check_step(#name, need); \
  else std::printf("skip %s\n", #name);
#include "kernels/normalize/kernels.inc"
#undef PALM_KERNEL
}
