// CPUs with tiles take as long for a vector of pairs' products as for four of floats', so numbers
// are widened, each once for all the sums that it goes into; of the tiles themselves a depthwise
// product would fill one column.
#include "kernels/depthwise_bf16/blocks.h"

namespace palm {
namespace {

class WideTaps {
 public:
  // Of each block of channels: the taps as they lie in the kernel, rounded to Bf16.
  WideTaps(const DepthwiseBf16& d, size_t c)
      : floats_(reinterpret_cast<const float*>(d.weights) + c * d.kernel_height * d.kernel_width),
        kernel_width_(d.kernel_width) {}

  F32 at(size_t ky, size_t kx) const { return tap(ky * kernel_width_ + kx); }

  template <int kKernel, int kStride, int kRows>
  PALM_INLINE void add(Column from, int ix, F32 (&sum)[kRows][kColumns]) const {
    constexpr int kInRows = (kRows - 1) * kStride + kKernel;
    PALM_UNROLL for (int iy = 0; iy < kInRows; ++iy) {
      F32 in = first_of(Pairs<F32>::firsts(from.rows[iy] + from.offset, from.masks[iy]));
      PALM_PIN_VECTOR(in.v);
      PALM_UNROLL for (int y = 0; y < kRows; ++y) {
        const int ky = iy - y * kStride;
        if (ky < 0 || ky >= kKernel) continue;
        PALM_UNROLL for (int x = 0; x < static_cast<int>(kColumns); ++x) {
          const int kx = ix - x * kStride;
          if (kx < 0 || kx >= kKernel) continue;
          sum[y][x] = fma(in, tap(static_cast<size_t>(ky * kKernel + kx)), sum[y][x]);
        }
      }
    }
  }

 private:
  F32 tap(size_t i) const { return F32::load(floats_ + i * F32::lanes); }

  const float* floats_;
  size_t kernel_width_;
};

}  // namespace

void PALM_FN(depthwise_bf16)(const DepthwiseBf16& d, size_t begin, size_t end) {
  run_blocks<WideTaps>(d, begin, end);
}

size_t PALM_SUFFIX(pack_depthwise_bf16, PALM_ISA_NAME)(size_t channels, size_t kernel_height,
                                                       size_t kernel_width, const float* weights,
                                                       char* packed) {
  float* const floats = reinterpret_cast<float*>(packed);
  const size_t taps = kernel_height * kernel_width;
  size_t i = 0;
  for (size_t block = 0; block < channels; block += F32::lanes) {
    for (size_t tap = 0; tap < taps; ++tap) {
      for (size_t c = block; c < block + F32::lanes; ++c, ++i)
        if (packed) floats[i] = c < channels ? widen(narrow(weights[c * taps + tap])) : 0.f;
    }
  }
  return i * sizeof(float);
}

}  // namespace palm
