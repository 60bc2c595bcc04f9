#include "kernels/winograd/winograd.h"

namespace palm {

void winograd_weights(const double (&kernel)[9], double (&transformed)[36]) {
  constexpr double kP = Winograd::kP, kQ = Winograd::kQ;
  constexpr double kPP = kP * kP, kQQ = kQ * kQ;
  constexpr double kOfP = 2 * kPP * (kPP - kQQ), kOfQ = 2 * kQQ * (kQQ - kPP);
  constexpr double kG[6][3] = {{1 / (kPP * kQQ), 0, 0},
                               {1 / kOfP, kP / kOfP, kPP / kOfP},
                               {1 / kOfP, -kP / kOfP, kPP / kOfP},
                               {1 / kOfQ, kQ / kOfQ, kQQ / kOfQ},
                               {1 / kOfQ, -kQ / kOfQ, kQQ / kOfQ},
                               {0, 0, 1}};
  for (int i = 0; i < 6; ++i) {
    for (int j = 0; j < 6; ++j) {
      double sum = 0;
      for (int a = 0; a < 3; ++a)
        for (int b = 0; b < 3; ++b) sum += kG[i][a] * kG[j][b] * kernel[a * 3 + b];
      transformed[i * 6 + j] = sum;
    }
  }
}

WinogradKernel find_winograd(uint32_t isa) {
#define PALM_KERNEL(need, name) \
  if ((isa & (need)) == (need)) return {&gather_##name, &scatter_##name};
#include "kernels/winograd/kernels.inc"
#undef PALM_KERNEL
}

}  // namespace palm
