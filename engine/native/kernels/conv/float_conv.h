#pragma once
#include <cstring>

#include "kernels/conv/conv.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemv_f16/gemv_f16.h"

namespace palm {

// What ways of convolving by GEMMs ask of the numbers that they multiply: float here, Bf16 in
// Bf16Conv.
class FloatConv : public Conv {
 protected:
  FloatConv(const Node& node, const ConvShape& shape) : Conv(node, shape) {
    if (shape.outputs_last) node.constant(kWeights, node.in(kWeights).count);
  }

  using Number = float;
  using Kernel = GemmKernel;
  // A GEMM sums so many products together: sums are of a multiple of it.
  static constexpr size_t kTogether = 1;

  static Kernel find(uint32_t isa) { return find_gemm(isa); }

  const float* x(const Buffers& b) const { return b.in(kX); }
  float* y(const Buffers& b) const { return b.out(); }

  // x is numbers already, these.
  bool is_number() const { return true; }
  static const float* numbers(const float* x) { return x; }

  void load(const float* from, size_t count, float* to) const {
    std::memcpy(to, from, count * sizeof(float));
  }

  // The same by the weights as they lie, if they are read so.
  Gemm product(const Buffers& b, Gemm gemm) const {
    if (packs()) return gemm;
    gemm.b = b.in(kWeights);
    gemm.ldb = shape_.out_channels;
    return gemm;
  }

  // The same for all of a step.
  Gemm whole_product(const Buffers& b, Gemm gemm) const {
    gemm.next = b.next;
    return product(b, gemm);
  }

  // Pixels of `channels` numbers to pixels of one more, a zero.
  void load_wider(const float*, size_t, size_t, float*, float*) const {}

  bool packs() const { return !shape_.outputs_last; }

  // A GEMM of one pixel by weights that are all of float16: packs these, and runs it.
  bool packs_halves(const Node& node, const float* w, size_t depth) {
    if (shape_.pixels != 1 || shape_.groups != 1 || !(gemv_ = find_gemv_f16(node.isa)))
      return false;
    halves_ = pack_gemv_f16(depth, shape_.out_channels, w, 1, depth);
    return halves_.data();
  }
  bool runs_halves(const Buffers& b, const float* a, size_t depth) const {
    if (!halves_.data()) return false;
    const auto* const w = reinterpret_cast<const uint16_t*>(halves_.data());
    run_gemv_f16(gemv_, {shape_.out_channels, depth, a, w, y(b), epilogue(b)}, *b.pool);
    return true;
  }

 private:
  Arena halves_;
  GemvF16Fn gemv_ = nullptr;
};

}  // namespace palm
