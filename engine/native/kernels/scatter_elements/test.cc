#include "base/check.h"
#include "base/one_step.h"

int main() {
  using namespace palm;
  Random random;
  const size_t dims[3] = {3, 4, 5};
  const Vector x = random.floats(3 * 4 * 5);
  for (size_t axis = 0; axis < 3; ++axis) {
    for (bool add : {false, true}) {
      size_t shape[3] = {2, 3, 4};
      shape[axis] = 7;
      const size_t count = shape[0] * shape[1] * shape[2];
      const Vector updates = random.floats(count);
      std::vector<int64_t> index;
      for (size_t i = 0; i < count; ++i)
        index.push_back(static_cast<int64_t>(random.between(0, 2 * dims[axis] - 1)) -
                        static_cast<int64_t>(dims[axis]));
      Vector y(x.size() + 1, 77.f), expected = x;
      OneStep step("scatter_elements");
      step.input({3, 4, 5}, x).input(DType::kInt64, {shape[0], shape[1], shape[2]}, index);
      step.input({shape[0], shape[1], shape[2]}, updates).output({3, 4, 5});
      step.attr("axis", static_cast<int64_t>(axis)).attr("shape", Ints(shape, shape + 3));
      step.attr("dims", Ints{3, 4, 5}).attr("reduction", std::string(add ? "add" : "none"));
      step.make(kScalar, 2).run(y.data(), x.size());
      for (size_t k = 0; k < count; ++k) {
        size_t at[3] = {k / shape[2] / shape[1], k / shape[2] % shape[1], k % shape[2]};
        const int64_t i = index[k];
        at[axis] = static_cast<size_t>(i < 0 ? i + static_cast<int64_t>(dims[axis]) : i);
        float& e = expected[(at[0] * 4 + at[1]) * 5 + at[2]];
        e = add ? e + updates[k] : updates[k];
      }
      for (size_t i = 0; i < x.size(); ++i)
        PALM_CHECK(y[i] == expected[i], "axis %zu: y[%zu] is %g, expected %g", axis, i, y[i],
                   expected[i]);
      PALM_CHECK(y.back() == 77.f, "wrote past the end");
    }
  }
}
