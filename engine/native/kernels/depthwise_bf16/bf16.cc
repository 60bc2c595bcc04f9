// Two rows of x at a time are one vector of pairs, and two taps of a column one vector of weights:
// half the multiplications. The last tap of an odd number meets pairs whose second is zero, so that
// a number outside of the window never counts, be it infinite.
#include "kernels/depthwise_bf16/blocks.h"

namespace palm {
namespace {

using Pair = Pairs<F32>;

class PairedTaps {
 public:
  // For ky = 0, 2 ... and each kx the taps ky and ky + 1 of each channel, or a zero where there is
  // no such tap.
  PairedTaps(const DepthwiseBf16& d, size_t c)
      : numbers_(reinterpret_cast<const Bf16*>(d.weights) +
                 c * ((d.kernel_height + 1) / 2 * 2 * d.kernel_width)),
        kernel_width_(d.kernel_width) {}

  F32 at(size_t ky, size_t kx) const {
    const Pair taps = pair(ky / 2 * kernel_width_ + kx);
    return ky % 2 ? second_of(taps) : first_of(taps);
  }

  template <int kKernel, int kStride, int kRows>
  PALM_INLINE void add(Column in, int ix, F32 (&sum)[kRows][kColumns]) const {
    constexpr int kInRows = (kRows - 1) * kStride + kKernel;
    Pair above = Pair::firsts(in.rows[0] + in.offset, in.masks[0]);
    PALM_UNROLL for (int iy = 0; iy < kInRows; ++iy) {
      const Pair below =
          iy + 1 < kInRows ? Pair::firsts(in.rows[iy + 1] + in.offset, in.masks[iy + 1]) : above;
      const Pair both = join(above, below);
      PALM_UNROLL for (int y = 0; y < kRows; ++y) {
        const int ky = iy - y * kStride;
        if (ky < 0 || ky >= kKernel || ky % 2) continue;
        PALM_UNROLL for (int x = 0; x < static_cast<int>(kColumns); ++x) {
          const int kx = ix - x * kStride;
          if (kx < 0 || kx >= kKernel) continue;
          const Pair taps = pair(static_cast<size_t>(ky / 2 * kKernel + kx));
          sum[y][x] = dot(ky == kKernel - 1 ? above : both, taps, sum[y][x]);
        }
      }
      above = below;
    }
  }

 private:
  Pair pair(size_t i) const { return Pair::load(numbers_ + i * F32::lanes * 2); }

  const Bf16* numbers_;
  size_t kernel_width_;
};

}  // namespace

void PALM_FN(depthwise_bf16)(const DepthwiseBf16& d, size_t begin, size_t end) {
  run_blocks<PairedTaps>(d, begin, end);
}

size_t PALM_SUFFIX(pack_depthwise_bf16, PALM_ISA_NAME)(size_t channels, size_t kernel_height,
                                                       size_t kernel_width, const float* weights,
                                                       char* packed) {
  Bf16* const numbers = reinterpret_cast<Bf16*>(packed);
  const size_t taps = kernel_height * kernel_width;
  size_t i = 0;
  for (size_t block = 0; block < channels; block += F32::lanes) {
    for (size_t pair = 0; pair < (kernel_height + 1) / 2; ++pair) {
      for (size_t kx = 0; kx < kernel_width; ++kx) {
        for (size_t j = 0; packed && j < F32::lanes * 2; ++j) {
          const size_t c = block + j / 2, ky = pair * 2 + j % 2;
          const bool is_tap = c < channels && ky < kernel_height;
          numbers[i + Pair::place(j / 2, j % 2)] =
              narrow(is_tap ? weights[c * taps + ky * kernel_width + kx] : 0.f);
        }
        i += F32::lanes * 2;
      }
    }
  }
  return i * sizeof(Bf16);
}

}  // namespace palm
