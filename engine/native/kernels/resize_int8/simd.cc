#include "base/simd.h"

#include "kernels/resize_int8/resize_int8.h"

namespace palm {

void PALM_FN(resize_int8)(const ResizeInt8& row) {
  const ResizeInt8 r = row;
  constexpr int32_t kOne = 1 << 11;
  for (size_t i = 0; i < r.n; ++i)
    r.line[i] = r.upper[i] * (kOne - r.weight) + r.lower[i] * r.weight - r.zero * kOne;
  uint8_t* y = r.y;
  for (size_t p = 0; p < r.pixels; ++p, y += r.channels) {
    const int32_t* const a = r.line + r.from[p];
    const int32_t* const b = r.line + r.to[p];
    const int32_t of_b = r.weights[p], of_a = kOne - of_b;
    for (size_t c = 0; c < r.channels; ++c)
      y[c] = byte_of(static_cast<float>(a[c] * of_a + b[c] * of_b) * r.factor, r.to_byte);
  }
}

}  // namespace palm
