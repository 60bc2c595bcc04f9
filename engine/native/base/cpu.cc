#include "base/cpu.h"

#include <cstring>

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

namespace palm {

uint32_t host_isa() {
  uint32_t isa = kScalar;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    isa |= kAvx2;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
      isa |= kAvx512;
      if (__builtin_cpu_supports("avx512bf16")) isa |= kAvx512Bf16;
      if (__builtin_cpu_supports("avx512vnni")) isa |= kAvx512Vnni;
    }
  }
#elif defined(__aarch64__) && defined(__linux__)
  constexpr unsigned long kFhm = 1ul << 23;      // HWCAP_ASIMDFHM
  constexpr unsigned long kDotProd = 1ul << 20;  // HWCAP_ASIMDDP
  if (getauxval(AT_HWCAP) & kFhm) isa |= kNeonFp16;
  if (getauxval(AT_HWCAP) & kDotProd) isa |= kNeonDotProd;
#endif
  return isa;
}

bool isa_by_name(const char* name, uint32_t* isa) {
#define PALM_ISA(set, need) \
  if (std::strcmp(name, #set) == 0) return *isa = (need), true;
#define PALM_BF16_ISA(set, need) PALM_ISA(set, need)
#define PALM_INT8_ISA(set, need) PALM_ISA(set, need)
#include "base/bf16_isas.inc"
#include "base/int8_isas.inc"
#include "base/isas.inc"
#undef PALM_INT8_ISA
#undef PALM_BF16_ISA
#undef PALM_ISA
  return false;
}

}  // namespace palm
