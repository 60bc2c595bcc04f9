#include "base/check.h"
#include "base/one_step.h"

namespace {

using namespace palm;

OneStep gather(const Vector& x, const std::vector<int64_t>& index, bool constant) {
  OneStep step("gather");
  step.input({3, 7, 4}, x).input(DType::kInt64, {index.size()}, index, constant);
  step.output({3, index.size(), 4});
  step.attr("outer", int64_t{3}).attr("axis", int64_t{7}).attr("inner", int64_t{4});
  return step;
}

}  // namespace

int main() {
  Random random;
  const Vector x = random.floats(3 * 7 * 4);
  const std::vector<int64_t> index = {6, -7, 0, 3, 3, -1};
  for (bool constant : {false, true}) {
    Vector y(3 * 6 * 4 + 1, 77.f);
    gather(x, index, constant).make(kScalar, 1).run(y.data(), 72);
    for (size_t i = 0; i < 72; ++i) {
      const int64_t at = index[i / 4 % 6];
      const size_t k = static_cast<size_t>(at < 0 ? at + 7 : at);
      PALM_CHECK(y[i] == x[(i / 24 * 7 + k) * 4 + i % 4], "y[%zu] is %g", i, y[i]);
    }
    PALM_CHECK(y[72] == 77.f, "wrote past the end");
    for (int64_t bad : {int64_t{7}, int64_t{-8}, INT64_MIN, INT64_MAX}) {
      const std::vector<int64_t> one = {bad};
      const bool refused =
          refuses([&] { gather(x, one, constant).make(kScalar, 1).run(y.data(), 12); });
      PALM_CHECK(refused, "index %lld was taken", static_cast<long long>(bad));
    }
  }
}
