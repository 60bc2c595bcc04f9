#include <cmath>

#include "base/check.h"
#include "base/one_step.h"

namespace {

using namespace palm;

int64_t best(const Vector& x, const char* op, bool last) {
  int64_t y[2] = {-1, 77};
  const size_t n = x.size();
  OneStep step("arg_max");
  step.input({n}, x).output(DType::kInt64, {1}).attr("outer", int64_t{1});
  step.attr("axis", static_cast<int64_t>(n)).attr("inner", int64_t{1});
  step.attr("op", std::string(op)).attr("last", int64_t{last}).make(kScalar, 1).run({y});
  PALM_CHECK(y[1] == 77, "wrote past the end");
  return y[0];
}

}  // namespace

int main() {
  Random random;
  for (size_t n = 1; n <= 70; ++n) {
    const size_t inner = 1 + n % 3;
    std::vector<int32_t> x;
    for (size_t i = 0; i < 2 * n * inner; ++i) x.push_back(static_cast<int32_t>(random.bits() % 9));
    for (int way = 0; way < 4; ++way) {
      const bool min = way & 1, last = way & 2;
      std::vector<int64_t> y(2 * inner + 1, 77);
      OneStep step("arg_max");
      step.input(DType::kInt32, {2, n, inner}, x).output(DType::kInt64, {2, inner});
      step.attr("outer", int64_t{2}).attr("axis", static_cast<int64_t>(n));
      step.attr("inner", static_cast<int64_t>(inner)).attr("last", int64_t{last});
      step.attr("op", std::string(min ? "min" : "max")).make(kScalar, 2).run({y.data()});
      for (size_t line = 0; line < 2 * inner; ++line) {
        const auto at = [&](size_t i) { return x[(line / inner * n + i) * inner + line % inner]; };
        size_t expected = 0;
        for (size_t i = 1; i < n; ++i) {
          const bool better = min ? at(i) < at(expected) : at(i) > at(expected);
          if (better || (last && at(i) == at(expected))) expected = i;
        }
        PALM_CHECK(y[line] == static_cast<int64_t>(expected), "n=%zu, way %d", n, way);
      }
      PALM_CHECK(y.back() == 77, "wrote past n=%zu", n);
    }
  }
  for (const char* op : {"max", "min"}) {
    PALM_CHECK(best({1.f, NAN, 5.f, NAN}, op, false) == 1, "%s: the first NaN", op);
    PALM_CHECK(best({1.f, NAN, 5.f, NAN, 0.f}, op, true) == 3, "%s: the last NaN", op);
  }
}
