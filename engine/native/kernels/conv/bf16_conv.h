#pragma once
#include <cstring>

#include "kernels/cast_bf16/cast_bf16.h"
#include "kernels/conv/conv.h"
#include "kernels/gemm_bf16/gemm_bf16.h"

namespace palm {

// Convolution with products of base/bf16.h: x, residual and y are float or narrow each, everything
// but the products is float. What it has is FloatConv's.
class Bf16Conv : public Conv {
 public:
  // The kernels may do a tile's rows twice.
  bool in_place(size_t) const override { return false; }

 protected:
  using Number = Bf16;
  using Kernel = GemmBf16Kernel;
  static constexpr size_t kTogether = 2;

  Bf16Conv(const Node& node, const ConvShape& shape)
      : Conv(node, shape),
        cast_(find_cast_bf16(node.isa)),
        narrow_x_(node.any_in(kX).dtype == kNarrow),
        narrow_y_(node.any_out().dtype == kNarrow),
        narrow_residual_(node.input(kResidual) && node.input(kResidual)->dtype == kNarrow) {}

  static Kernel find(uint32_t isa) { return find_gemm_bf16(isa); }

  EitherIn x(const Buffers& b) const { return {b.inputs[kX], narrow_x_}; }
  EitherOut y(const Buffers& b) const { return {b.outputs[0], narrow_y_}; }

  bool is_number() const { return narrow_x_; }
  static const Bf16* numbers(EitherIn x) { return x.narrow(); }

  EpilogueBf16 epilogue(const Buffers& b) const {
    EpilogueBf16 e;
    e.plain = Conv::epilogue(b);
    e.residual_stride = e.plain.residual_stride;
    e.residual_channels = e.plain.residual_channels;
    if (e.residual_channels) e.residual = {b.inputs[kResidual], narrow_residual_};
    e.plain.residual = nullptr;
    return e;
  }

  void load(EitherIn from, size_t count, Bf16* to) const {
    if (from.is_narrow) std::memcpy(to, from.data, count * sizeof(Bf16));
    else cast_.narrow(from.floats(), count, to);
  }

  GemmBf16 product(const Buffers&, const GemmBf16& gemm) const { return gemm; }
  GemmBf16 whole_product(const Buffers&, const GemmBf16& gemm) const { return gemm; }
  static constexpr bool packs() { return true; }
  static bool packs_halves(const Node&, const float*, size_t) { return false; }
  static bool runs_halves(const Buffers&, const Bf16*, size_t) { return false; }

  // spare: room for the pixels as they are.
  void load_wider(EitherIn from, size_t pixels, size_t channels, Bf16* spare, Bf16* to) const {
    load(from, pixels * channels, spare);
    if (channels == 3 && pixels > 0) {
      for (; --pixels > 0; to += 4, spare += 3) {
        uint64_t pixel;
        std::memcpy(&pixel, spare, sizeof pixel);
        pixel &= 0xffffffffffffu;
        std::memcpy(static_cast<void*>(to), &pixel, sizeof pixel);
      }
      pixels = 1;
    }
    for (size_t i = 0; i < pixels; ++i, to += channels + 1, spare += channels)
      for (size_t c = 0; c < channels; ++c) to[c] = spare[c];
  }

 private:
  const CastBf16Kernel cast_;
  const bool narrow_x_, narrow_y_, narrow_residual_;
};

}  // namespace palm
