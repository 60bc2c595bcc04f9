#pragma once
#include "base/step.h"

namespace palm {

// Indices of type int32 or int64, as a kernel reads them; a negative one counts from the end.
class Indices {
 public:
  explicit Indices(const Tensor& tensor) : wide_(tensor.dtype == DType::kInt64) {
    if (!wide_ && tensor.dtype != DType::kInt32) {
      fail(Fault::kUnsupported, "indices: expected int32 or int64, got %s", tensor.text().c_str());
    }
  }

  // Element k of `indices` along an axis of that size; throws Error if it is outside.
  size_t at(const void* indices, size_t k, size_t axis) const {
    const int64_t index =
        wide_ ? static_cast<const int64_t*>(indices)[k] : static_cast<const int32_t*>(indices)[k];
    const int64_t size = static_cast<int64_t>(axis);
    if (index < -size || index >= size) {
      fail(Fault::kShape, "index %lld is outside of an axis of %lld", static_cast<long long>(index),
           static_cast<long long>(size));
    }
    return static_cast<size_t>(index < 0 ? index + size : index);
  }

 private:
  bool wide_;
};

// Puts an element, or a run of them, where another one is: in its place, or combined with it.
using Combine = void (*)(size_t n, const void* update, void* target);

// How `reduction` ("none", "add", "mul", "max" or "min") combines elements of that type.
Combine find_combine(const std::string& reduction, DType dtype);

}  // namespace palm
