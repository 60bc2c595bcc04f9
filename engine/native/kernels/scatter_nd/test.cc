#include <algorithm>

#include "base/check.h"
#include "base/one_step.h"

int main() {
  using namespace palm;
  Random random;
  const Vector x = random.floats(3 * 4 * 5), updates = random.floats(6 * 5);
  // Two of the tuples are the same.
  const std::vector<int64_t> index{0, 1, 2, -1, 0, 1, -3, 0, 1, 1, 2, 2};
  const size_t runs[6] = {1, 11, 1, 0, 5, 10};
  for (const char* reduction : {"none", "add", "mul", "max", "min"}) {
    const std::string name = reduction;
    Vector y(x.size() + 1, 77.f), expected = x;
    OneStep step("scatter_nd");
    step.input({3, 4, 5}, x).input(DType::kInt64, {6, 2}, index).input({6, 5}, updates);
    step.output({3, 4, 5}).attr("batch", int64_t{1}).attr("dims", Ints{3, 4});
    step.attr("inner", int64_t{5}).attr("reduction", name);
    step.make(kScalar, 2).run(y.data(), x.size());
    for (size_t i = 0; i < updates.size(); ++i) {
      float& e = expected[runs[i / 5] * 5 + i % 5];
      const float v = updates[i];
      e = name == "none"  ? v
          : name == "add" ? e + v
          : name == "mul" ? e * v
          : name == "max" ? std::max(e, v)
                          : std::min(e, v);
    }
    for (size_t i = 0; i < x.size(); ++i)
      PALM_CHECK(y[i] == expected[i], "%s: y[%zu] is %g, expected %g", reduction, i, y[i],
                 expected[i]);
    PALM_CHECK(y.back() == 77.f, "wrote past the end");
  }
}
