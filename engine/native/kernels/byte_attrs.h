#pragma once
#include "base/step.h"
#include "kernels/level_int8.h"

namespace palm {

// The integer attribute, or Error unless it is a byte.
inline int32_t byte_attr(const Node& node, const char* name, int64_t missing) {
  const int64_t value = node.attrs.integer(name, missing);
  if (value < 0 || value > 255) {
    fail(Fault::kModel, "attribute %s: expected 0 to 255, got %lld", name,
         static_cast<long long>(value));
  }
  return static_cast<int32_t>(value);
}

// From the attributes y_zero, low = 0 and high = 255.
inline ToByte to_byte(const Node& node) {
  const int32_t zero = byte_attr(node, "y_zero", 0);
  const int32_t low = byte_attr(node, "low", 0), high = byte_attr(node, "high", 255);
  if (low > high) fail(Fault::kModel, "low above high");
  return {static_cast<float>(low - zero), static_cast<float>(high - zero), zero};
}

// The attribute, or Error unless it is a scale with which no float overflows.
inline float scale_attr(const Node& node, const char* name) {
  const float scale = node.attrs.number(name);
  if (!(scale <= 1e9f && scale >= -1e9f))
    fail(Fault::kModel, "attribute %s: %g", name, static_cast<double>(scale));
  return scale;
}

}  // namespace palm
