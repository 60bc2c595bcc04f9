#pragma once
#include <cstddef>

#include "base/cpu.h"

namespace palm {

// What becomes of the sums of n units' gates, with s = sigmoid and all sums clipped to +-clip:
//   kLstm (gates i, o, f, c): c = s(f) c + s(i) tanh(c'); y = s(o) tanh(c); with peepholes p the
//     gates i and f get p c more, and o gets p times the new c; `input_forget`: s(f) is 1 - s(i).
//   kGruReset (gates z, r): z = s(z), y = s(r) h; then kGruUpdate (gate h'): y = z h +
//     (1 - z) tanh(h').
//   kGruLinear (gates z, r, h'): y = s(z) h + (1 - s(z)) tanh(x + s(r) h').
//   kTanh, kSigmoid, kRelu (one gate): y = f(gate).
enum class RecurrentOp { kLstm, kGruReset, kGruUpdate, kGruLinear, kTanh, kSigmoid, kRelu };

// Row i of `gates` begins at gates + i * gates_stride, its gate g at g * n. The other rows are
// `stride` apart, those of x x_stride.
struct Recurrent {
  RecurrentOp op;
  size_t rows, n;
  const float* gates;
  size_t gates_stride;
  const float* x;
  size_t x_stride;
  const float* h;
  float* c;  // kLstm: read and written
  float* z;
  float* y;
  size_t stride;
  const float* peepholes[3];  // of i, o and f; null: none
  float clip;
  bool input_forget;
};

using RecurrentFn = void (*)(const Recurrent& recurrent);

#define PALM_KERNEL(need, name) void name(const Recurrent& recurrent);
#include "kernels/recurrent/kernels.inc"
#undef PALM_KERNEL

RecurrentFn find_recurrent(uint32_t isa);

}  // namespace palm
