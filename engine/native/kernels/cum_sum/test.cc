#include "base/check.h"
#include "base/one_step.h"

int main() {
  using namespace palm;
  Random random;
  for (size_t n = 0; n <= 70; ++n) {
    for (int way = 0; way < 4; ++way) {
      const bool exclusive = way & 1, reverse = way & 2;
      const size_t inner = 1 + n % 3, count = 2 * n * inner;
      std::vector<int64_t> x;
      for (size_t i = 0; i < count; ++i) x.push_back(static_cast<int64_t>(random.between(0, 99)));
      std::vector<int64_t> y(count + 1, 77);
      OneStep step("cum_sum");
      step.input(DType::kInt64, {2, n, inner}, x).output(DType::kInt64, {2, n, inner});
      step.attr("outer", int64_t{2}).attr("axis", static_cast<int64_t>(n));
      step.attr("inner", static_cast<int64_t>(inner)).attr("exclusive", int64_t{exclusive});
      step.attr("reverse", int64_t{reverse}).make(kScalar, 2).run({y.data()});
      for (size_t line = 0; line < 2 * inner; ++line) {
        int64_t sum = 0;
        for (size_t k = 0; k < n; ++k) {
          const size_t i = reverse ? n - 1 - k : k;
          const size_t at = (line / inner * n + i) * inner + line % inner;
          const int64_t expected = exclusive ? sum : sum + x[at];
          sum += x[at];
          PALM_CHECK(y[at] == expected, "n=%zu, way %d: y[%zu]", n, way, at);
        }
      }
      PALM_CHECK(y[count] == 77, "wrote past n=%zu", n);
    }
  }
}
