#include "base/cpu.h"

#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#elif defined(__aarch64__)
#if defined(__linux__)
#include <sys/auxv.h>
#elif defined(__APPLE__)
#include <sys/sysctl.h>
#elif defined(_WIN32)
#include <windows.h>
#endif
#endif

namespace palm {
namespace {

#if defined(__x86_64__)
// What CPUID answers. Compilers' own way of asking sees nothing on some systems.
struct Cpuid {
  explicit Cpuid(unsigned leaf, unsigned part = 0) {
    if (!__get_cpuid_count(leaf, part, &a, &b, &c, &d)) a = b = c = d = 0;
  }
  unsigned a, b, c, d;
};

bool all(unsigned value, unsigned bits) { return (value & bits) == bits; }

// The registers that the system saves for a thread.
unsigned saved_registers() {
  constexpr unsigned kXsaveUsed = 1u << 27;
  if (!(Cpuid(1).c & kXsaveUsed)) return 0;
  unsigned low, high;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

// The bits of AMX, of a machine that has `isa`.
uint32_t amx_of(uint32_t isa) {
#if defined(__linux__)
  constexpr unsigned kBf16 = 1u << 22, kTile = 1u << 24, kInt8 = 1u << 25;
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM
  const unsigned d = Cpuid(7).d;
  if (!(d & kTile) || syscall(SYS_arch_prctl, kRequestPermission, kTileData) != 0) return 0;
  uint32_t bits = 0;
  if ((d & kInt8) && (isa & kAvx512Vnni) == kAvx512Vnni) bits |= kAmxInt8;
  if ((d & kBf16) && (isa & kAvx512Bf16) == kAvx512Bf16) bits |= kAmxBf16;
  return bits;
#else
  (void)isa;
  return 0;
#endif
}

uint32_t find_isa() {
  constexpr unsigned kYmm = 0x6, kZmm = 0xe6;                             // of the registers saved
  constexpr unsigned kFma = 1u << 12, kAvx = 1u << 28, kF16c = 1u << 29;  // of leaf 1, c
  constexpr unsigned k2 = 1u << 5, kF = 1u << 16, kDq = 1u << 17, kBw = 1u << 30, kVl = 1u << 31;
  constexpr unsigned kVbmi = 1u << 1, kVnni = 1u << 11;  // of leaf 7, c
  constexpr unsigned kBf16 = 1u << 5;                    // of leaf 7, part 1, a
  const unsigned saved = saved_registers();
  const Cpuid leaf7(7);
  uint32_t isa = kScalar;
  if (!all(saved, kYmm) || !all(Cpuid(1).c, kFma | kAvx | kF16c) || !(leaf7.b & k2)) return isa;
  isa |= kAvx2;
  if (!all(saved, kZmm) || !all(leaf7.b, kF | kDq | kBw | kVl)) return isa;
  isa |= kAvx512;
  if (leaf7.a >= 1 && (Cpuid(7, 1).a & kBf16)) isa |= kAvx512Bf16;
  if (leaf7.c & kVnni) isa |= kAvx512Vnni;
  if (leaf7.c & kVbmi) isa |= kAvx512Vbmi;
  return isa | amx_of(isa);
}

#elif defined(__aarch64__)

uint32_t find_isa() {
  uint32_t isa = kScalar;
#if defined(__linux__)
  constexpr unsigned long kFhm = 1ul << 23;      // HWCAP_ASIMDFHM
  constexpr unsigned long kDotProd = 1ul << 20;  // HWCAP_ASIMDDP
  if (getauxval(AT_HWCAP) & kFhm) isa |= kNeonFp16;
  if (getauxval(AT_HWCAP) & kDotProd) isa |= kNeonDotProd;
#elif defined(__APPLE__)
  const auto has = [](const char* name) {
    int value = 0;
    size_t size = sizeof value;
    return !sysctlbyname(name, &value, &size, nullptr, 0) && value;
  };
  if (has("hw.optional.arm.FEAT_FHM")) isa |= kNeonFp16;
  if (has("hw.optional.arm.FEAT_DotProd")) isa |= kNeonDotProd;
#elif defined(_WIN32)
  constexpr DWORD kDotProd = 43;  // PF_ARM_V82_DP_INSTRUCTIONS_AVAILABLE
  if (IsProcessorFeaturePresent(kDotProd)) isa |= kNeonDotProd;
#endif
  return isa;
}

#else

uint32_t find_isa() { return kScalar; }

#endif

// What this library has kernels for: what is beyond it is of no use, and would be counted on.
constexpr uint32_t kBuilt = kScalar
#define PALM_SET(set, need) | (need)
#include "base/every_set.inc"
#undef PALM_SET
    ;

}  // namespace

uint32_t host_isa() {
  static const uint32_t isa = find_isa() & kBuilt;
  return isa;
}

bool isa_by_name(const char* name, uint32_t* isa) {
#define PALM_SET(set, need) \
  if (std::strcmp(name, #set) == 0) return *isa = (need), true;
#include "base/every_set.inc"
#undef PALM_SET
  return false;
}

}  // namespace palm
