#include <cmath>

#include "base/check.h"
#include "kernels/softmax/softmax.h"

namespace {

using namespace palm;

void check(const char* name, SoftmaxFn run, size_t axis, size_t inner, Random& random) {
  const Vector x = random.floats(axis * inner, 20.f);
  for (bool log : {false, true}) {
    Vector y(axis * inner + 1, 77.f);
    run(log, axis, inner, x.data(), y.data());
    for (size_t j = 0; j < inner; ++j) {
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
    PALM_CHECK(y.back() == 77.f, "%s: wrote past %zu x %zu", name, axis, inner);
  }
}

void check(const char* name, SoftmaxFn run) {
  Random random;
  for (size_t n = 1; n <= 70; ++n) {
    check(name, run, n, 1, random);
    check(name, run, 3, n, random);
  }
  check(name, run, 1000, 1, random);
  const float large[2] = {1e30f, -INFINITY}, bad[2] = {NAN, 1.f};
  float y[2];
  run(false, 2, 1, large, y);
  PALM_CHECK(y[0] == 1.f && y[1] == 0.f, "%s: of 1e30, -inf: %g, %g", name, y[0], y[1]);
  run(false, 2, 1, bad, y);
  PALM_CHECK(std::isnan(y[0]) && std::isnan(y[1]), "%s: lost a NaN", name);
}

}  // namespace

int main() {
#define PALM_KERNEL(need, name)            \
  if (runs_here(need)) check(#name, name); \
  else std::printf("skip %s\n", #name);
#include "kernels/softmax/kernels.inc"
#undef PALM_KERNEL
}
