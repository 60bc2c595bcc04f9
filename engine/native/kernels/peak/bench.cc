#include "kernels/peak/peak.h"

#include "base/bench.h"

int main() {
  using namespace palm;
  bench_header("GFLOP/s");
  std::printf("%-34s", "multiply-adds on registers");
#define PALM_ISA(isa, need) \
  if (runs_here(need)) std::printf("%9.1f", peak_flops(need, 0.1) * 1e-9);
#include "base/isas.inc"
#undef PALM_ISA
  std::printf("\n");
}
