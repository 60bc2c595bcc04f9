#include "base/cpu.h"

#include <cstring>

namespace palm {

uint32_t host_isa() {
  uint32_t isa = kScalar;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    isa |= kAvx2;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
      isa |= kAvx512;
    }
  }
#endif
  return isa;
}

bool isa_by_name(const char* name, uint32_t* isa) {
#define PALM_ISA(set, need) \
  if (std::strcmp(name, #set) == 0) return *isa = (need), true;
#include "base/isas.inc"
#undef PALM_ISA
  return false;
}

}  // namespace palm
