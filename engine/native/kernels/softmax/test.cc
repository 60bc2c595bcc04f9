#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "kernels/softmax/softmax.h"

namespace {

using namespace palm;

void check(const char* name, SoftmaxFn run, size_t rows, size_t axis, size_t inner,
           Random& random) {
  const size_t size = axis * inner;
  const Vector all = random.floats(rows * size, 20.f);
  for (bool log : {false, true}) {
    Vector result(rows * size + 1, 77.f), in_place = all;
    run(log, rows, axis, inner, all.data(), result.data());
    run(log, rows, axis, inner, in_place.data(), in_place.data());
    Vector alone(size);
    run(log, 1, axis, inner, all.data(), alone.data());
    PALM_CHECK(std::equal(alone.begin(), alone.end(), result.begin()), "%s: a row alone", name);
    PALM_CHECK(std::equal(in_place.begin(), in_place.end(), result.begin()), "%s: in place", name);
    for (size_t at = 0; at < rows * inner; ++at) {
      const size_t row = at / inner, j = at % inner;
      const float *const x = all.data() + row * size, *const y = result.data() + row * size;
      double most = -INFINITY, sum = 0;
      for (size_t k = 0; k < axis; ++k) most = x[k * inner + j] > most ? x[k * inner + j] : most;
      for (size_t k = 0; k < axis; ++k) sum += std::exp(x[k * inner + j] - most);
      for (size_t k = 0; k < axis; ++k) {
        const double v = x[k * inner + j] - most,
                     expected = log ? v - std::log(sum) : std::exp(v) / sum;
        PALM_CHECK(is_close(y[k * inner + j], expected, 1e-6), "%s: axis %zu, inner %zu: %g for %g",
                   name, axis, inner, y[k * inner + j], expected);
      }
    }
    PALM_CHECK(result.back() == 77.f, "%s: wrote past %zu x %zu x %zu", name, rows, axis, inner);
  }
}

void check(const char* name, SoftmaxFn run) {
  Random random;
  for (size_t n = 1; n <= 70; ++n) {
    check(name, run, 1, n, 1, random);
    check(name, run, 1, 3, n, random);
    for (size_t rows = 2; rows < 40; rows += 5) check(name, run, rows, n, 1, random);
    check(name, run, 3, 2, n, random);
  }
  check(name, run, 1, 1000, 1, random);
  // Alone and beside others.
  for (size_t rows : {1, 2}) {
    const float x[] = {1e30f, -INFINITY, NAN, 1.f};
    float y[4];
    run(false, rows, 2, 1, x, y);
    PALM_CHECK(y[0] == 1.f && y[1] == 0.f, "%s: of 1e30, -inf: %g, %g", name, y[0], y[1]);
    run(false, rows, 2, 1, x + 4 - 2 * rows, y);
    const float* const bad = y + 2 * (rows - 1);
    PALM_CHECK(std::isnan(bad[0]) && std::isnan(bad[1]), "%s: lost a NaN", name);
  }
  for (size_t n : {1, 2, 7, 15, 16, 17, 33, 70}) {
    for (size_t at = 0; at < n; ++at) {
      Vector x = random.floats(n), y(n);
      x[at] = NAN;
      run(false, 1, n, 1, x.data(), y.data());
      for (float v : y) PALM_CHECK(std::isnan(v), "%s: lost the NaN at %zu of %zu", name, at, n);
    }
  }
}

}  // namespace

int main() {
#define PALM_KERNEL(need, name)            \
  if (runs_here(need)) check(#name, name); \
  else std::printf("skip %s\n", #name);
#include "kernels/softmax/kernels.inc"
#undef PALM_KERNEL
}
