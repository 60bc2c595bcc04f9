#pragma once
#include "base/step.h"

namespace palm {

// An array seen as [outer, axis, inner], from the attributes of these names.
struct Axis {
  explicit Axis(const Node& node)
      : outer(node.attrs.size("outer")),
        size(node.attrs.size("axis")),
        inner(node.attrs.size("inner")) {
    checked_product(lines(), size);
  }

  size_t lines() const { return checked_product(outer, inner); }
  // The array has `along` elements along the axis.
  const Tensor& check(const Tensor& tensor, size_t along) const {
    if (tensor.count != checked_product(lines(), along))
      fail(Fault::kModel, "%s is not [%zu, %zu, %zu]", tensor.text().c_str(), outer, along, inner);
    return tensor;
  }
  // Where line i begins if the array has `along` elements along the axis; they are `inner` apart.
  size_t line(size_t i, size_t along) const { return i / inner * inner * along + i % inner; }

  size_t outer, size, inner;
};

}  // namespace palm
