#include "base/simd.h"

#include "kernels/binary_int8/binary_int8.h"

namespace palm {
namespace {

template <bool kMul, int kA, int kB>
void run(const BinaryInt8& given, size_t n, const uint8_t* a, const uint8_t* b, uint8_t* y) {
  const BinaryInt8 op = given;
  for (size_t i = 0; i < n; ++i) {
    const int32_t u = a[kA ? i : 0] - op.a_zero, v = b[kB ? i : 0] - op.b_zero;
    if (kMul) {
      y[i] = byte_of(static_cast<float>(u * v) * op.a_scale, op.to);
    } else {
      const float left = static_cast<float>(u) * op.a_scale;
      const float right = static_cast<float>(v) * op.b_scale;
      y[i] = byte_of(left + right, op.to);
    }
  }
}

template <bool kMul>
void choose(const BinaryInt8& op, size_t n, const uint8_t* a, const uint8_t* b, uint8_t* y) {
  if (op.a_step && op.b_step) run<kMul, 1, 1>(op, n, a, b, y);
  else if (op.a_step) run<kMul, 1, 0>(op, n, a, b, y);
  else if (op.b_step) run<kMul, 0, 1>(op, n, a, b, y);
  else run<kMul, 0, 0>(op, n, a, b, y);
}

}  // namespace

void PALM_FN(binary_int8)(const BinaryInt8& op, size_t n, const uint8_t* a, const uint8_t* b,
                          uint8_t* y) {
  if (op.mul) choose<true>(op, n, a, b, y);
  else choose<false>(op, n, a, b, y);
}

}  // namespace palm
