#include <cmath>

#include "base/check.h"
#include "base/one_step.h"

int main() {
  using namespace palm;
  Random random;
  for (size_t n = 1; n <= 70; ++n) {
    for (size_t size : {1, 2, 5, 9}) {
      const Vector x = random.floats(3 * n, 3.f);
      Vector y(3 * n + 1, 77.f);
      const double beta = n % 2 ? 0.75 : 0.6;
      OneStep step("local_response");
      step.input({3, n}, x).output({3, n}).attr("channels", static_cast<int64_t>(n));
      step.attr("size", static_cast<int64_t>(size)).attr("alpha", 0.5).attr("beta", beta);
      step.attr("bias", 1.5).make(kScalar, 2).run(y.data(), 3 * n);
      for (size_t i = 0; i < 3 * n; ++i) {
        double sum = 0;
        for (size_t k = 0; k < size; ++k) {
          const size_t c = i % n + k - (size - 1) / 2;  // wraps round below 0
          if (c < n) sum += static_cast<double>(x[i / n * n + c]) * x[i / n * n + c];
        }
        const double expected = x[i] / std::pow(1.5 + 0.5 / static_cast<double>(size) * sum, beta);
        PALM_CHECK(is_close(y[i], expected, 1e-6), "n=%zu, size %zu: %g for %g", n, size, y[i],
                   expected);
      }
      PALM_CHECK(y.back() == 77.f, "wrote past n=%zu", n);
    }
  }
}
