#pragma once
#include <cstddef>
#include <cstdint>

namespace palm {

// Where results go: bytes or floats.
struct OutInt8 {
  void* data;
  bool is_float;

  uint8_t* bytes() const { return static_cast<uint8_t*>(data); }
  float* floats() const { return static_cast<float*>(data); }
  OutInt8 operator+(size_t n) const {
    return {is_float ? static_cast<void*>(floats() + n) : bytes() + n, is_float};
  }
};

// What is done to the int32 sum of one pixel's channel before it is stored as a byte, each line in
// float32 and rounded for itself:
//   v = float(sum + bias) * scale
//   v = rint(clip(v, inner_low, inner_high)) * inner_scale    where inner_scale is not 0
//   v = v + float(residual - residual_zero) * residual_scale  where there is a residual
//   v = rint(clip(v, sum_low, sum_high)) * sum_scale          where sum_scale is not 0
//   v = v > 0 ? v : v * slope                                 where there is a slope
//   y = rint(clip(v, low, high)) + zero
// where y is bytes, or y = float(sum + bias) * scale where it is floats, with nothing else.
// rint takes halves to the even one; all lows and highs are whole numbers, less their zero point.
// sum + bias wraps round.
struct EpilogueInt8 {
  const int32_t* bias = nullptr;      // one a channel; what x's zero point adds is in it
  const float* scale = nullptr;       // one a channel
  const float* slope = nullptr;       // one a channel
  const uint8_t* residual = nullptr;  // pixel i begins at residual + i * residual_stride
  size_t residual_stride = 0;
  size_t residual_channels = 0;  // the channels after these add nothing
  float residual_scale = 0, residual_zero = 0;
  float inner_scale = 0, inner_low = 0, inner_high = 0;
  float sum_scale = 0, sum_low = 0, sum_high = 0;
  float low = 0, high = 255;
  int32_t zero = 0;
  // To bytes with no other scale and no slope, and no sum * scale leaves int32.
  bool is_plain = false;

  // The same for the channels from `first` on.
  EpilogueInt8 from_channel(size_t first) const {
    EpilogueInt8 e = *this;
    e.bias += first;
    e.scale += first;
    if (slope) e.slope += first;
    if (residual && residual_channels > first) {
      e.residual += first;
      e.residual_channels -= first;
    } else {
      e.residual = nullptr;
    }
    return e;
  }

  // The same for the pixels from `first` on.
  EpilogueInt8 from_pixel(size_t first) const {
    EpilogueInt8 e = *this;
    if (residual) e.residual += first * residual_stride;
    return e;
  }
};

}  // namespace palm
