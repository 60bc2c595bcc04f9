#pragma once
// What the kernels' benches share: a line of figures, one for each instruction set of this host.
#include <cstdio>

#include "base/check.h"

namespace palm {

inline void bench_header(const char* unit) {
  std::printf("%-34s", unit);
#define PALM_ISA(isa, need) std::printf("%9s", runs_here(need) ? #isa : "");
#include "base/isas.inc"
#undef PALM_ISA
  std::printf("\n");
}

// `amount` / 1e9 a second; make(isa) gives what is to be timed, where suits(isa).
template <class Make, class Suits>
void bench(const char* name, double amount, Make make, Suits suits) {
  std::printf("%-34s", name);
#define PALM_ISA(isa, need)                                                               \
  if (runs_here(need)) {                                                                  \
    if (suits(need)) std::printf("%9.1f", amount * 1e-9 / best_seconds(make(need)));      \
    else std::printf("%9s", "-");                                                         \
  }
#include "base/isas.inc"
#undef PALM_ISA
  std::printf("\n");
}

template <class Make>
void bench(const char* name, double amount, Make make) {
  bench(name, amount, make, [](uint32_t) { return true; });
}

}  // namespace palm
