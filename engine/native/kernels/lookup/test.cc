#include "base/check.h"
#include "base/one_step.h"
#include "kernels/lookup/lookup.h"

namespace {

using namespace palm;

void check_sizes(const char* name, LookupFn run) {
  Random random;
  for (size_t n = 0; n <= 400; ++n) {
    std::vector<uint8_t> table(256), x(n + 1), y(n + 1, 77);
    for (auto& each : table) each = static_cast<uint8_t>(random.bits());
    for (size_t i = 0; i <= n; ++i) x[i] = static_cast<uint8_t>(n < 256 ? random.bits() : i);
    run(table.data(), n, x.data(), y.data());
    for (size_t i = 0; i < n; ++i)
      PALM_CHECK(y[i] == table[x[i]], "%s: n=%zu: %d is %d", name, n, x[i], y[i]);
    PALM_CHECK(y[n] == 77, "%s: wrote past n=%zu", name, n);
    run(table.data(), n, x.data(), x.data());
    y[n] = x[n];
    PALM_CHECK(x == y, "%s: n=%zu in place", name, n);
  }
}

template <class T>
void check(DType dtype, uint32_t isa) {
  Random random;
  for (size_t channels : {1, 3, 17, 64, 133}) {
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
#define PALM_KERNEL(need, name)              \
  if (runs_here(need)) {                     \
    check_sizes(#name, name);                \
    check<uint8_t>(DType::kUint8, need);     \
    check<int8_t>(DType::kInt8, need);       \
  } else {                                   \
    std::printf("skip %s\n", #name);         \
  }
#include "kernels/lookup/kernels.inc"
#undef PALM_KERNEL
}
