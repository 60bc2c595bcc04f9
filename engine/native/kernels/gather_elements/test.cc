#include "base/check.h"
#include "base/one_step.h"

int main() {
  using namespace palm;
  Random random;
  const size_t dims[3] = {3, 4, 5};
  const Vector x = random.floats(3 * 4 * 5);
  for (size_t axis = 0; axis < 3; ++axis) {
    for (size_t along = 0; along <= 7; ++along) {
      size_t shape[3] = {2, 3, 4};
      shape[axis] = along;
      const size_t count = shape[0] * shape[1] * shape[2];
      std::vector<int32_t> index;
      for (size_t i = 0; i < count; ++i)
        index.push_back(static_cast<int32_t>(random.between(0, 2 * dims[axis] - 1)) -
                        static_cast<int32_t>(dims[axis]));
      Vector y(count + 1, 77.f);
      OneStep step("gather_elements");
      step.input({3, 4, 5}, x).input(DType::kInt32, {shape[0], shape[1], shape[2]}, index);
      step.output({shape[0], shape[1], shape[2]}).attr("axis", static_cast<int64_t>(axis));
      step.attr("shape", Ints(shape, shape + 3)).attr("dims", Ints{3, 4, 5});
      step.make(kScalar, 2).run(y.data(), count);
      for (size_t k = 0; k < count; ++k) {
        size_t at[3] = {k / shape[2] / shape[1], k / shape[2] % shape[1], k % shape[2]};
        const int32_t i = index[k];
        at[axis] = static_cast<size_t>(i < 0 ? i + static_cast<int32_t>(dims[axis]) : i);
        PALM_CHECK(y[k] == x[(at[0] * 4 + at[1]) * 5 + at[2]], "axis %zu: y[%zu] is %g", axis, k,
                   y[k]);
      }
      PALM_CHECK(y[count] == 77.f, "wrote past the end");
    }
  }
}
