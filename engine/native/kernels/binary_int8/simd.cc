#include "base/simd.h"

#include "kernels/binary_int8/binary_int8.h"

namespace palm {
namespace {

constexpr size_t kBlock = 64;

// y may be a or b: it is written when all is read.
template <bool kMul>
PALM_INLINE void block(const BinaryInt8& op, const uint8_t* a, const uint8_t* b, uint8_t* y) {
  uint8_t all[kBlock];
  for (size_t i = 0; i < kBlock; ++i) {
    const int32_t u = a[i] - op.a_zero, v = b[i] - op.b_zero;
    if (kMul) {
      all[i] = byte_of(static_cast<float>(u * v) * op.a_scale, op.to);
    } else {
      const float left = static_cast<float>(u) * op.a_scale;
      const float right = static_cast<float>(v) * op.b_scale;
      all[i] = byte_of(left + right, op.to);
    }
  }
  std::memcpy(y, all, kBlock);
}

template <bool kMul>
void run(const BinaryInt8& given, size_t n, const uint8_t* a, const uint8_t* b, uint8_t* y) {
  const BinaryInt8 op = given;
  for (; n >= kBlock; n -= kBlock, a += kBlock, b += kBlock, y += kBlock) block<kMul>(op, a, b, y);
  if (n == 0) return;
  uint8_t u[kBlock] = {}, v[kBlock] = {};
  std::memcpy(u, a, n);
  std::memcpy(v, b, n);
  block<kMul>(op, u, v, u);
  std::memcpy(y, u, n);
}

}  // namespace

void PALM_FN(binary_int8)(const BinaryInt8& op, size_t n, const uint8_t* a, const uint8_t* b,
                          uint8_t* y) {
  if (op.mul) run<true>(op, n, a, b, y);
  else run<false>(op, n, a, b, y);
}

}  // namespace palm
