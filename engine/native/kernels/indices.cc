#include "kernels/indices.h"

#include <cstring>

#include "kernels/arithmetic.h"

namespace palm {
namespace {

template <class Op, class T>
void combine(size_t n, const void* update, void* target) {
  const T* const from = static_cast<const T*>(update);
  T* const to = static_cast<T*>(target);
  for (size_t i = 0; i < n; ++i) to[i] = Op()(to[i], from[i]);
}

template <size_t kSize>
void replace(size_t n, const void* update, void* target) {
  std::memcpy(target, update, n * kSize);
}

template <class Op>
Combine find(DType dtype) {
  switch (dtype) {
    case DType::kFloat32: return &combine<Op, float>;
    case DType::kInt32: return &combine<Op, int32_t>;
    case DType::kInt64: return &combine<Op, int64_t>;
    default: fail(Fault::kUnsupported, "no reduction of %s", name_of(dtype));
  }
}

}  // namespace

Combine find_combine(const std::string& reduction, DType dtype) {
  if (reduction == "add") return find<Add>(dtype);
  if (reduction == "mul") return find<Mul>(dtype);
  if (reduction == "max") return find<Max>(dtype);
  if (reduction == "min") return find<Min>(dtype);
  if (reduction != "none") fail(Fault::kModel, "attribute reduction: %.40s", reduction.c_str());
  switch (size_of(dtype)) {
    case 1: return &replace<1>;
    case 2: return &replace<2>;
    case 4: return &replace<4>;
    default: return &replace<8>;
  }
}

}  // namespace palm
