#include "kernels/winograd_bf16/winograd_bf16.h"

#include "base/error.h"

namespace palm {

void winograd_bf16_weights(const float* weights, size_t channels, float* transformed,
                           size_t plane) {
  constexpr double kP = WinogradBf16::kP, kQ = WinogradBf16::kQ;
  constexpr double kPP = kP * kP, kQQ = kQ * kQ;
  constexpr double kOfP = 2 * kPP * (kPP - kQQ), kOfQ = 2 * kQQ * (kQQ - kPP);
  constexpr double kG[6][3] = {{1 / (kPP * kQQ), 0, 0},
                               {1 / kOfP, kP / kOfP, kPP / kOfP},
                               {1 / kOfP, -kP / kOfP, kPP / kOfP},
                               {1 / kOfQ, kQ / kOfQ, kQQ / kOfQ},
                               {1 / kOfQ, -kQ / kOfQ, kQQ / kOfQ},
                               {0, 0, 1}};
  for (size_t c = 0; c < channels; ++c) {
    double columns[6][3];
    for (size_t i = 0; i < 6; ++i) {
      for (size_t b = 0; b < 3; ++b) {
        columns[i][b] = 0;
        for (size_t a = 0; a < 3; ++a)
          columns[i][b] += kG[i][a] * static_cast<double>(weights[(a * 3 + b) * channels + c]);
      }
    }
    for (size_t i = 0; i < 6; ++i) {
      for (size_t j = 0; j < 6; ++j) {
        double sum = 0;
        for (size_t b = 0; b < 3; ++b) sum += kG[j][b] * columns[i][b];
        transformed[(i * 6 + j) * plane + c] = static_cast<float>(sum) * WinogradBf16::kScale;
      }
    }
  }
}

WinogradBf16Kernel find_winograd_bf16(uint32_t isa) {
#define PALM_KERNEL(need, name) \
  if ((isa & (need)) == (need)) return {&gather_##name, &scatter_##name};
#include "kernels/winograd_bf16/kernels.inc"
#undef PALM_KERNEL
  (void)isa;
  fail(Fault::kUnsupported, "this instruction set has no 16-bit products");
}

}  // namespace palm
