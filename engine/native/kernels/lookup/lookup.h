#pragma once
#include <cstddef>

#include "base/cpu.h"

namespace palm {

// y[i] = table[x[i]] for i < n, of a table of 256; y may be x.
using LookupFn = void (*)(const uint8_t* table, size_t n, const uint8_t* x, uint8_t* y);

#define PALM_KERNEL(need, name) \
  void name(const uint8_t* table, size_t n, const uint8_t* x, uint8_t* y);
#include "kernels/lookup/kernels.inc"
#undef PALM_KERNEL

LookupFn find_lookup(uint32_t isa);

}  // namespace palm
