#pragma once
// A number in steps, as the byte that stands for it. Included by files of one instruction set each.
#include <cstdint>
#include <cstring>

namespace palm {

// How numbers in steps become bytes: rint(clip(v, low, high)) + zero, halves to even. low and high
// are whole numbers within 255 of 0.
struct ToByte {
  float low, high;
  int32_t zero;
};

namespace {

inline uint8_t byte_of(float v, const ToByte& to) {
  v = v > to.low ? v : to.low;
  v = v < to.high ? v : to.high;
  // Of floats this large the steps are 1, so that the sum is rounded, and its last bits are it.
  v += 12582912.f;
  int32_t bits;
  std::memcpy(&bits, &v, sizeof bits);
  return static_cast<uint8_t>(bits - 0x4b400000 + to.zero);
}

}  // namespace
}  // namespace palm
