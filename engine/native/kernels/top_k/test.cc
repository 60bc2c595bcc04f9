#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "base/one_step.h"

int main() {
  using namespace palm;
  Random random;
  for (size_t n = 0; n <= 70; ++n) {
    for (size_t k : {size_t{0}, n / 3, n}) {
      for (bool largest : {true, false}) {
        const size_t inner = 1 + n % 3;
        Vector x = random.floats(2 * n * inner);
        for (float& v : x) v = std::nearbyint(v * 8);  // some are equal
        if (n > 3) x[3] = NAN;
        Vector values(2 * k * inner + 1, 77.f);
        std::vector<int64_t> indices(2 * k * inner + 1, 77);
        OneStep step("top_k");
        step.input({2, n, inner}, x).output({2, k, inner}).output(DType::kInt64, {2, k, inner});
        step.attr("outer", int64_t{2}).attr("axis", static_cast<int64_t>(n));
        step.attr("inner", static_cast<int64_t>(inner)).attr("k", static_cast<int64_t>(k));
        step.attr("largest", int64_t{largest}).make(kScalar, 2);
        step.run({values.data(), indices.data()});
        for (size_t line = 0; line < 2 * inner; ++line) {
          const auto at = [&](size_t i, size_t along) {
            return (line / inner * along + i) * inner + line % inner;
          };
          std::vector<size_t> order(n);
          std::iota(order.begin(), order.end(), size_t{0});
          std::stable_sort(order.begin(), order.end(), [&](size_t i, size_t j) {
            float a = x[at(i, n)], b = x[at(j, n)];
            a = std::isnan(a) ? 1e9f : a, b = std::isnan(b) ? 1e9f : b;
            return largest ? a > b : a < b;
          });
          for (size_t i = 0; i < k; ++i) {
            PALM_CHECK(indices[at(i, k)] == static_cast<int64_t>(order[i]),
                       "n=%zu, k=%zu: place %zu is %lld", n, k, i,
                       static_cast<long long>(indices[at(i, k)]));
            PALM_CHECK(is_close(values[at(i, k)], x[at(order[i], n)], 0), "n=%zu: value", n);
          }
        }
        PALM_CHECK(values.back() == 77.f && indices.back() == 77, "wrote past n=%zu", n);
      }
    }
  }
}
