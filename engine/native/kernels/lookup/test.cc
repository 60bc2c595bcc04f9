#include "base/check.h"
#include "base/one_step.h"

namespace {

using namespace palm;

template <class T>
void check(DType dtype, uint32_t isa) {
  Random random;
  for (size_t channels : {1, 3, 17}) {
    for (bool own : {false, true}) {
      for (bool last : {false, true}) {
        const size_t inner = last ? 1 : 37, outer = last ? 41 : 2;
        const size_t count = outer * channels * inner;
        std::vector<T> x;
        std::vector<uint8_t> table, y(count + 1, 77);
        for (size_t i = 0; i < count; ++i) x.push_back(static_cast<T>(random.between(0, 255)));
        for (size_t i = 0; i < (own ? channels : 1) * 256; ++i)
          table.push_back(static_cast<uint8_t>(random.between(0, 255)));
        OneStep step("lookup");
        step.input(dtype, {count}, x).input(DType::kUint8, {table.size()}, table, true);
        step.attr("outer", static_cast<int64_t>(outer));
        step.attr("axis", static_cast<int64_t>(channels));
        step.attr("inner", static_cast<int64_t>(inner)).output(DType::kUint8, {count});
        step.make(isa, 2).run({y.data()});
        for (size_t i = 0; i < count; ++i) {
          const int place = static_cast<int>(x[i]) - (dtype == DType::kInt8 ? -128 : 0);
          const size_t row = own ? i / inner % channels * 256 : 0;
          PALM_CHECK(y[i] == table[row + static_cast<size_t>(place)], "lookup: %zu of %zu", i,
                     count);
        }
        PALM_CHECK(y[count] == 77, "lookup: wrote past the end");
      }
    }
  }
}

}  // namespace

int main() {
  check<uint8_t>(DType::kUint8, palm::kScalar);
  check<int8_t>(DType::kInt8, palm::kScalar);
}
