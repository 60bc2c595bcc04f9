#include <algorithm>

#include "base/check.h"
#include "base/one_step.h"

namespace {

using namespace palm;

// Every choice of the axes of a small array.
template <class T>
void check(DType dtype) {
  Random random;
  const size_t sizes[3] = {3, 4, 7};
  std::vector<T> x;
  for (size_t i = 0; i < 84; ++i) x.push_back(static_cast<T>(random.between(0, 9)));
  for (const char* op : {"sum", "max", "min", "prod"}) {
    const std::string name = op;
    for (unsigned axes = 0; axes < 8; ++axes) {
      Ints out_shape, out_strides, red_shape, red_strides;
      size_t count = 1;
      for (size_t d = 0, stride = 84; d < 3; ++d) {
        stride /= sizes[d];
        const bool reduced = axes >> d & 1;
        (reduced ? red_shape : out_shape).push_back(static_cast<int64_t>(sizes[d]));
        (reduced ? red_strides : out_strides).push_back(static_cast<int64_t>(stride));
        if (!reduced) count *= sizes[d];
      }
      std::vector<T> y(count + 1, T{77}), expected(count);
      std::vector<bool> begun(count);
      for (size_t i = 0; i < 84; ++i) {
        const size_t index[3] = {i / 28, i / 7 % 4, i % 7};
        size_t at = 0;
        for (size_t d = 0; d < 3; ++d)
          if (!(axes >> d & 1)) at = at * sizes[d] + index[d];
        const T e = expected[at], v = x[i];
        if (!begun[at]) expected[at] = v;
        else if (name == "sum")
          expected[at] = static_cast<T>(static_cast<uint64_t>(e) + static_cast<uint64_t>(v));
        else if (name == "prod")
          expected[at] = static_cast<T>(static_cast<uint64_t>(e) * static_cast<uint64_t>(v));
        else expected[at] = name == "max" ? std::max(e, v) : std::min(e, v);
        begun[at] = true;
      }
      OneStep step("reduce_integers");
      step.input(dtype, {3, 4, 7}, x).output(dtype, {count}).attr("op", name);
      step.attr("out_shape", out_shape).attr("out_strides", out_strides);
      step.attr("red_shape", red_shape).attr("red_strides", red_strides);
      step.make(kScalar, 2).run({y.data()});
      for (size_t i = 0; i < count; ++i)
        PALM_CHECK(y[i] == expected[i], "%s of %s, axes %u", op, name_of(dtype), axes);
      PALM_CHECK(y[count] == T{77}, "wrote past the end");
    }
  }
}

}  // namespace

int main() {
  check<int8_t>(DType::kInt8);
  check<uint8_t>(DType::kUint8);
  check<int32_t>(DType::kInt32);
  check<int64_t>(DType::kInt64);
}
