#include "base/check.h"
#include "base/one_step.h"

int main() {
  using namespace palm;
  for (size_t n : {0, 1, 7, 70, 40000}) {
    Vector y(n + 1, 77.f);
    OneStep("fill").output({n}).attr("value", 2.5).make(kScalar, 2).run(y.data(), n);
    for (size_t i = 0; i < n; ++i) PALM_CHECK(y[i] == 2.5f, "n=%zu: y[%zu] is %g", n, i, y[i]);
    PALM_CHECK(y[n] == 77.f, "wrote past n=%zu", n);
  }
}
