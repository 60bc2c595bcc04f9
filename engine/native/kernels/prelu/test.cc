#include "base/check.h"
#include "base/one_step.h"

int main() {
  using namespace palm;
  Random random;
#define PALM_ISA(isa, need)                                                              \
  for (size_t c = 1; c <= 70 && runs_here(need); ++c) {                                  \
    const Vector x = random.floats(2 * 3 * c), slope = random.floats(c);                 \
    Vector y(x.size() + 1, 77.f);                                                        \
    OneStep("prelu")                                                                     \
        .input({2, 3, c}, x)                                                             \
        .input({c}, slope)                                                               \
        .output({2, 3, c})                                                               \
        .attr("shape", Ints{2, 3, static_cast<int64_t>(c)})                              \
        .attr("slope_strides", Ints{0, 0, 1})                                            \
        .make(need, 1)                                                                   \
        .run(y.data(), x.size());                                                        \
    for (size_t i = 0; i < x.size(); ++i)                                                \
      PALM_CHECK(y[i] == (x[i] < 0 ? x[i] * slope[i % c] : x[i]), "%s: c=%zu", #isa, c); \
    PALM_CHECK(y.back() == 77.f, "%s: wrote past the end", #isa);                        \
  }
#include "base/isas.inc"
#undef PALM_ISA
}
