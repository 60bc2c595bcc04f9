#pragma once
#include "kernels/indices.h"

namespace palm {

// An index for each element of an array of `shape`, which says where along axis `axis` of another
// array it lies; the other array has the dims `dims`, as many as `shape`. From the attributes of
// these names.
class Lines {
 public:
  Lines(const Node& node, size_t input)
      : shape_(node.attrs.integers("shape")),
        strides_(node.attrs.integers("dims")),
        indices_(node.any_in(input)) {
    const size_t axis = node.attrs.size("axis");
    if (axis >= shape_.size() || strides_.size() != shape_.size())
      fail(Fault::kModel, "axis %zu of %zu dims", axis, shape_.size());
    array_ = checked_product(strides_);
    if (node.any_in(input).count != checked_product(shape_))
      fail(Fault::kModel, "%s is not of the shape", node.any_in(input).text().c_str());
    axis_ = static_cast<size_t>(strides_[axis]);
    int64_t stride = 1;
    for (size_t i = shape_.size(); i-- > 0;) {
      if (i != axis && shape_[i] > strides_[i]) fail(Fault::kModel, "shape is beyond dims");
      const int64_t size = strides_[i];
      strides_[i] = stride;
      stride *= size;
    }
    stride_ = static_cast<size_t>(strides_[axis]);
    strides_[axis] = 0;
  }

  size_t array() const { return array_; }

  // Which element of the other array is meant by element k; throws Error if it is outside.
  size_t at(const void* indices, size_t k) const {
    return static_cast<size_t>(offset_of(k, shape_, strides_)) +
           indices_.at(indices, k, axis_) * stride_;
  }

 private:
  Ints shape_, strides_;
  Indices indices_;
  size_t array_, axis_, stride_;
};

}  // namespace palm
