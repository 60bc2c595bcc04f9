#include "base/cpu.h"

#include <cstring>

#if defined(__linux__)
#if defined(__aarch64__)
#include <sys/auxv.h>
#elif defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif
#endif

namespace palm {
namespace {

#if defined(__x86_64__)
// The bits of AMX, of a machine that has `isa`.
uint32_t amx_of(uint32_t isa) {
#if defined(__linux__)
  constexpr unsigned kBf16 = 1u << 22, kTile = 1u << 24, kInt8 = 1u << 25;
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM
  unsigned a, b, c, d;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d & kTile)) return 0;
  if (syscall(SYS_arch_prctl, kRequestPermission, kTileData) != 0) return 0;
  uint32_t bits = 0;
  if ((d & kInt8) && (isa & kAvx512Vnni) == kAvx512Vnni) bits |= kAmxInt8;
  if ((d & kBf16) && (isa & kAvx512Bf16) == kAvx512Bf16) bits |= kAmxBf16;
  return bits;
#else
  (void)isa;
  return 0;
#endif
}
#endif

uint32_t find_isa() {
  uint32_t isa = kScalar;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
      __builtin_cpu_supports("f16c")) {
    isa |= kAvx2;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
      isa |= kAvx512;
      if (__builtin_cpu_supports("avx512bf16")) isa |= kAvx512Bf16;
      if (__builtin_cpu_supports("avx512vnni")) isa |= kAvx512Vnni;
      if (__builtin_cpu_supports("avx512vbmi")) isa |= kAvx512Vbmi;
      isa |= amx_of(isa);
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

}  // namespace

uint32_t host_isa() {
  static const uint32_t isa = find_isa();
  return isa;
}

bool isa_by_name(const char* name, uint32_t* isa) {
#define PALM_ISA(set, need) \
  if (std::strcmp(name, #set) == 0) return *isa = (need), true;
#define PALM_BF16_ISA(set, need) PALM_ISA(set, need)
#define PALM_INT8_ISA(set, need) PALM_ISA(set, need)
#define PALM_FILE_ISA(set, need) PALM_ISA(set, need)
#include "base/file_isas.inc"
#include "base/bf16_isas.inc"
#include "base/int8_isas.inc"
#include "base/isas.inc"
#undef PALM_FILE_ISA
#undef PALM_INT8_ISA
#undef PALM_BF16_ISA
#undef PALM_ISA
  return false;
}

}  // namespace palm
