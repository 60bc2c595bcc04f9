#pragma once
#include <cstddef>

namespace palm {

// What is done to the sums of one pixel's channels before they are stored:
// y = clip(sum + bias + residual), or with slopes y = max(v, 0) + slope * min(v, 0) of the same v.
struct Epilogue {
  const float* bias = nullptr;      // one a channel
  const float* slope = nullptr;     // one a channel
  const float* residual = nullptr;  // pixel i begins at residual + i * residual_stride
  size_t residual_stride = 0;
  size_t residual_channels = 0;                            // the channels after these add nothing
  float low = -__builtin_inff(), high = __builtin_inff();  // of the clip
  // If not null: post(post_data, pixels, channels, y, stride) once these are stored.
  void (*post)(const void* data, size_t pixels, size_t channels, float* y, size_t stride) = nullptr;
  const void* post_data = nullptr;

  // The same for the channels from `first` on.
  Epilogue from_channel(size_t first) const {
    Epilogue e = *this;
    if (bias) e.bias += first;
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
  Epilogue from_pixel(size_t first) const {
    Epilogue e = *this;
    if (residual) e.residual += first * residual_stride;
    return e;
  }
};

}  // namespace palm
