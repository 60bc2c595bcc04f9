#include "base/check.h"
#include "base/one_step.h"

int main() {
  using namespace palm;
  Random random;
  const Vector x = random.floats(2 * 3 * 4 * 5);
  for (bool batched : {false, true}) {
    // [2, 3, 4] runs of 5, or in each of 2 batches [3, 4] runs.
    const size_t batch = batched ? 2 : 1, depth = batched ? 2 : 3, count = 6;
    const std::vector<size_t> dims =
        batched ? std::vector<size_t>{3, 4} : std::vector<size_t>{2, 3, 4};
    std::vector<int64_t> index;
    std::vector<size_t> expected;
    for (size_t k = 0; k < batch * count; ++k) {
      size_t at = k / count;
      for (size_t d = 0; d < depth; ++d) {
        const size_t i = random.between(0, dims[d] - 1);
        at = at * dims[d] + i;
        const int64_t wrapped = static_cast<int64_t>(i) - static_cast<int64_t>(dims[d]);
        index.push_back(random.bits() % 2 ? wrapped : static_cast<int64_t>(i));
      }
      expected.push_back(at);
    }
    Vector y(batch * count * 5 + 1, 77.f);
    OneStep step("gather_nd");
    step.input({2, 3, 4, 5}, x).input(DType::kInt64, {batch * count, depth}, index);
    step.output({batch * count, 5}).attr("batch", static_cast<int64_t>(batch));
    step.attr("dims", Ints(dims.begin(), dims.end())).attr("inner", int64_t{5});
    step.make(kScalar, 2).run(y.data(), batch * count * 5);
    for (size_t i = 0; i < batch * count * 5; ++i)
      PALM_CHECK(y[i] == x[expected[i / 5] * 5 + i % 5], "y[%zu] is %g", i, y[i]);
    PALM_CHECK(y.back() == 77.f, "wrote past the end");
    index[1] = 4;
    const bool refused = refuses([&] { step.run(y.data(), batch * count * 5); });
    PALM_CHECK(refused, "an index outside was taken");
  }
}
