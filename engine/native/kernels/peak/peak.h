#pragma once
#include <cstddef>
#include <cstdint>

#include "base/cpu.h"

namespace palm {

// `rounds` times as many multiply-adds side by side as keep a core busy, on registers alone; adds
// what came out to *sum. Returns how many floating-point operations that were: two each.
using PeakFn = size_t (*)(size_t rounds, float* sum);

#define PALM_KERNEL(need, name) size_t name(size_t rounds, float* sum);
#include "kernels/peak/kernels.inc"
#undef PALM_KERNEL

PeakFn find_peak(uint32_t isa);

// The most floating-point operations a second that this thread reached within `seconds`.
double peak_flops(uint32_t isa, double seconds);

}  // namespace palm
