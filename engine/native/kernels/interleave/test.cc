#include "base/check.h"
#include "base/one_step.h"

namespace {

using namespace palm;

template <class T>
void check(DType dtype) {
  Random random;
  for (int trial = 0; trial < 200; ++trial) {
    const size_t inputs = random.between(1, 4), outer = random.between(1, 9);
    const size_t axis = random.between(1, 40), inner = trial % 3 ? 1 : random.between(1, 5);
    const size_t first = trial % 4 ? random.between(0, axis) : 0;
    const size_t kept = trial % 4 ? random.between(0, axis - first) : axis;
    std::vector<std::vector<T>> x(inputs);
    for (std::vector<T>& each : x)
      for (size_t i = 0; i < outer * axis * inner; ++i)
        each.push_back(static_cast<T>(random.bits()));
    OneStep step("interleave");
    const auto row = static_cast<int64_t>(axis * inner);
    for (const std::vector<T>& each : x) {
      step.input(dtype, {outer, axis * inner}, each);
      step.seen_as({outer, kept * inner}, {row, 1}, static_cast<int64_t>(first * inner));
    }
    step.output(dtype, {outer, kept * inputs * inner});
    step.attr("inner", static_cast<int64_t>(inner));
    const size_t count = outer * kept * inputs * inner;
    std::vector<T> y(count + 1, T{77});
    step.make(kScalar, 1 + trial % 3).run({y.data()});
    for (size_t i = 0; i < count; ++i) {
      const size_t k = i % inner, j = i / inner % inputs, c = i / inner / inputs % kept;
      const size_t o = i / inner / inputs / kept;
      PALM_CHECK(y[i] == x[j][(o * axis + first + c) * inner + k], "element %zu", i);
    }
    PALM_CHECK(y[count] == T{77}, "wrote past the end");
    if (kept < axis) continue;
    PALM_CHECK(step.in_wider_pixels(random).make(kScalar, 2).writes(y), "wider pixels");
  }
}

}  // namespace

int main() {
  check<uint8_t>(DType::kUint8);
  check<int16_t>(DType::kInt16);
  check<float>(DType::kFloat32);
  check<int64_t>(DType::kInt64);
}
