#include "base/check.h"
#include "base/one_step.h"

int main() {
  using namespace palm;
  Random random;
  for (size_t inner = 0; inner <= 70; ++inner) {
    const size_t size = 5, out = 7, taps = 1 + inner % 4, count = 2 * out * inner;
    const Vector x = random.floats(2 * size * inner), weight = random.floats(out * taps);
    std::vector<int32_t> index;
    for (size_t i = 0; i < out * taps; ++i)
      index.push_back(static_cast<int32_t>(random.between(0, size - 1)));
    Vector y(count + 1, 77.f);
    OneStep step("resample");
    step.input({2, size, inner}, x).input(DType::kInt32, {out, taps}, index, true);
    step.input({out, taps}, weight, true).output({2, out, inner}).attr("outer", int64_t{2});
    step.attr("axis", int64_t{5}).attr("inner", static_cast<int64_t>(inner));
    step.attr("taps", static_cast<int64_t>(taps)).make(kScalar, 2).run(y.data(), count);
    for (size_t i = 0; i < count; ++i) {
      const size_t o = i / inner / out, k = i / inner % out;
      double expected = 0;
      for (size_t t = 0; t < taps; ++t) {
        const size_t from = static_cast<size_t>(index[k * taps + t]);
        expected +=
            static_cast<double>(weight[k * taps + t]) * x[(o * size + from) * inner + i % inner];
      }
      PALM_CHECK(is_close(y[i], expected, 1e-6), "inner=%zu: %g for %g", inner, y[i], expected);
    }
    PALM_CHECK(y[count] == 77.f, "wrote past inner=%zu", inner);
  }
}
