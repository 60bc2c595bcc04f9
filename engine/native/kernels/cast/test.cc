#include <cmath>

#include "base/check.h"
#include "base/one_step.h"

namespace {

using namespace palm;

template <class From>
void check(DType dtype) {
  std::vector<From> x;
  for (int i = 0; i < 100; ++i) x.push_back(static_cast<From>(i));
  Vector y(101, 77.f);
  OneStep("cast").input(dtype, {100}, x).output({100}).make(kScalar, 2).run(y.data(), 100);
  for (size_t i = 0; i < 100; ++i)
    PALM_CHECK(y[i] == static_cast<float>(i), "%s: %zu became %g", name_of(dtype), i, y[i]);
  PALM_CHECK(y[100] == 77.f, "%s: wrote past the end", name_of(dtype));
}

}  // namespace

int main() {
  check<double>(DType::kFloat64);
  check<int8_t>(DType::kInt8);
  check<uint8_t>(DType::kUint8);
  check<int16_t>(DType::kInt16);
  check<uint16_t>(DType::kUint16);
  check<int32_t>(DType::kInt32);
  check<uint32_t>(DType::kUint32);
  check<int64_t>(DType::kInt64);
  check<uint64_t>(DType::kUint64);
}
