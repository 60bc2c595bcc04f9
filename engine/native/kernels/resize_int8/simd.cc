#include "base/simd.h"

#include "kernels/resize_int8/resize_int8.h"

namespace palm {
namespace {

constexpr int32_t kOne = 1 << 11;

// Of kChannels at a time, the last ones over those before.
template <size_t kChannels>
void between(const ResizeInt8& given) {
  const ResizeInt8 r = given;
  uint8_t* y = r.y;
  for (size_t p = 0; p < r.pixels; ++p, y += r.channels) {
    const int32_t of_b = r.weights[p], of_a = kOne - of_b;
    for (size_t c = 0; c < r.channels; c += kChannels) {
      if (c + kChannels > r.channels) c = r.channels - kChannels;
      const int32_t* const a = r.line + r.from[p] + c;
      const int32_t* const b = r.line + r.to[p] + c;
      uint8_t bytes[kChannels];
      for (size_t i = 0; i < kChannels; ++i)
        bytes[i] = byte_of(static_cast<float>(a[i] * of_a + b[i] * of_b) * r.factor, r.to_byte);
      std::memcpy(y + c, bytes, kChannels);
    }
  }
}

}  // namespace

void PALM_FN(resize_int8)(const ResizeInt8& row) {
  const ResizeInt8 r = row;
  for (size_t i = 0; i < r.n; ++i)
    r.line[i] = r.upper[i] * (kOne - r.weight) + r.lower[i] * r.weight - r.zero * kOne;
  if (r.channels >= 16) return between<16>(r);
  if (r.channels >= 4) return between<4>(r);
  between<1>(r);
}

}  // namespace palm
