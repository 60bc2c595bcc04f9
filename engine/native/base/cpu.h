#pragma once
#include <cstdint>

namespace palm {

// Instruction sets, as bits; a kernel names the ones it needs.
enum Isa : uint32_t {
  kScalar = 0,
  kAvx2 = 1u << 0,
  kAvx512 = 1u << 1,
  kAvx512Bf16 = kAvx512 | 1u << 2,
  kNeonFp16 = 1u << 3,  // with FMLAL (FEAT_FHM)
  kAvx512Vnni = kAvx512 | 1u << 4,
  kNeonDotProd = 1u << 5,
  kAmxInt8 = kAvx512Vnni | 1u << 6,
  kAmxBf16 = kAvx512Bf16 | 1u << 7,
  kAvx512Vbmi = kAvx512 | 1u << 8
};

// Ends a function that tried the kernels of all sets: the last needs nothing and has returned.
#define PALM_EVERY_SET_WAS_TRIED __builtin_unreachable()

// Of this machine and process. The first call asks Linux for the registers of AMX, which a process
// has to; where it does not get them, the machine counts as one without.
uint32_t host_isa();

// The bits that the set called `name` needs; false if there is none of that name.
bool isa_by_name(const char* name, uint32_t* isa);

}  // namespace palm
