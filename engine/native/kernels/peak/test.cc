#include "kernels/peak/peak.h"

#include "base/check.h"

namespace {

using namespace palm;

void check(const char* name, PeakFn run) {
  for (size_t rounds : {1, 40}) {
    float sum = 0;
    const size_t operations = run(rounds, &sum);
    const size_t lanes = operations / rounds / 2;
    PALM_CHECK(operations == rounds * lanes * 2 && lanes >= 12, "%s: %zu operations", name,
               operations);
    // Each chain goes half of the way to 2 in a round.
    PALM_CHECK(rounds < 40 || is_close(sum, 2.0 * static_cast<double>(lanes), 1e-6),
               "%s: %g from %zu lanes", name, sum, lanes);
  }
}

}  // namespace

int main() {
#define PALM_KERNEL(need, name)            \
  if (runs_here(need)) check(#name, name); \
  else std::printf("skip %s\n", #name);
#include "kernels/peak/kernels.inc"
#undef PALM_KERNEL
  const double flops = peak_flops(host_isa(), 0.01);
  PALM_CHECK(flops > 1e7 && flops < 1e13, "%g FLOP/s", flops);
}
