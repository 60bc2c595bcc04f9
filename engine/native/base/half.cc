#include "base/half.h"

#include <cstdint>
#include <cstring>

namespace palm {

void widen_halves(const char* halves, size_t count, float* to) {
  for (size_t i = 0; i < count; ++i) {
    uint16_t half;
    std::memcpy(&half, halves + i * sizeof half, sizeof half);
    // The exponent is put right by a product, which does it for numbers below the least normal too.
    uint32_t bits = static_cast<uint32_t>(half & 0x7fff) << 13;
    float value;
    std::memcpy(&value, &bits, sizeof value);
    value *= 0x1p112f;
    std::memcpy(&bits, &value, sizeof bits);
    if ((half & 0x7c00) == 0x7c00) bits |= 0x7f800000;
    bits |= static_cast<uint32_t>(half & 0x8000) << 16;
    std::memcpy(to + i, &bits, sizeof bits);
  }
}

}  // namespace palm
