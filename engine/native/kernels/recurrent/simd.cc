#include "base/simd.h"

#include "base/simd/math.h"
#include "kernels/recurrent/recurrent.h"

namespace palm {
namespace {

// One vector of units: where they begin in their row, and how many.
struct Units {
  const Recurrent& r;
  size_t row, at, n;
  F32 low, high;

  F32 load(const float* p, size_t stride) const { return F32::load(p + row * stride + at, n); }
  F32 sum(size_t gate) const { return load(r.gates + gate * r.n, r.gates_stride); }
  F32 clipped(F32 v) const { return min(high, max(low, v)); }
  F32 gate(size_t gate) const { return clipped(sum(gate)); }
  F32 peephole(size_t gate, size_t which, F32 c) const {
    const float* const p = r.peepholes[which];
    return clipped(p ? fma(F32::load(p + at, n), c, sum(gate)) : sum(gate));
  }
  void store(F32 v, float* p) const { v.store(p + row * r.stride + at, n); }
};

template <class Function>
void map(const Recurrent& r, Function f) {
  const float clip = r.clip;
  for (size_t i = 0; i < r.rows; ++i) {
    for (size_t j = 0; j < r.n; j += F32::lanes) {
      const size_t n = r.n - j < F32::lanes ? r.n - j : F32::lanes;
      f(Units{r, i, j, n, F32::set(-clip), F32::set(clip)});
    }
  }
}

F32 blend(F32 z, F32 h, F32 fresh) { return fma(z, h - fresh, fresh); }

}  // namespace

void PALM_FN(recurrent_f32)(const Recurrent& r) {
  const F32 one = F32::set(1.f), zero = F32::set(0.f);
  switch (r.op) {
    case RecurrentOp::kLstm:
      return map(r, [&](const Units& u) {
        F32 c = u.load(r.c, r.stride);
        const F32 in = sigmoid(u.peephole(0, 0, c));
        const F32 keep = r.input_forget ? one - in : sigmoid(u.peephole(2, 2, c));
        c = fma(keep, c, in * tanh(u.gate(3)));
        u.store(c, r.c);
        u.store(sigmoid(u.peephole(1, 1, c)) * tanh(c), r.y);
      });
    case RecurrentOp::kGruReset:
      return map(r, [&](const Units& u) {
        u.store(sigmoid(u.gate(0)), r.z);
        u.store(sigmoid(u.gate(1)) * u.load(r.h, r.stride), r.y);
      });
    case RecurrentOp::kGruUpdate:
      return map(r, [&](const Units& u) {
        u.store(blend(u.load(r.z, r.stride), u.load(r.h, r.stride), tanh(u.gate(0))), r.y);
      });
    case RecurrentOp::kGruLinear:
      return map(r, [&](const Units& u) {
        const F32 fresh = fma(sigmoid(u.gate(1)), u.sum(2), u.load(r.x, r.x_stride));
        u.store(blend(sigmoid(u.gate(0)), u.load(r.h, r.stride), tanh(u.clipped(fresh))), r.y);
      });
    case RecurrentOp::kTanh: return map(r, [&](const Units& u) { u.store(tanh(u.gate(0)), r.y); });
    case RecurrentOp::kSigmoid:
      return map(r, [&](const Units& u) { u.store(sigmoid(u.gate(0)), r.y); });
    case RecurrentOp::kRelu:
      return map(r, [&](const Units& u) { u.store(max(zero, u.gate(0)), r.y); });
  }
}

}  // namespace palm
