// y[o][k][i] = x[o][index[k]][i]: whole runs of `inner` elements of any type.
#include <cstring>

#include "base/step.h"

namespace palm {
namespace {

size_t dim(const Node& node, const char* name) {
  const int64_t value = node.attrs.integer(name);
  if (value < 0) fail(Fault::kModel, "attribute %s is negative", name);
  return static_cast<size_t>(value);
}

class Gather : public Step {
 public:
  explicit Gather(const Node& node)
      : outer_(dim(node, "outer")), axis_(dim(node, "axis")), inner_(dim(node, "inner")) {
    const Tensor &x = node.any_in(0), &index = node.any_in(1), &y = node.any_out();
    if (index.dtype != DType::kInt32 && index.dtype != DType::kInt64)
      fail(Fault::kUnsupported, "indices: expected int32 or int64, got %s", index.text().c_str());
    wide_ = index.dtype == DType::kInt64;
    count_ = index.count;
    if (x.dtype != y.dtype || x.count != product(axis_) || y.count != product(count_)) {
      fail(Fault::kModel, "%s by %s into %s does not fit its attributes", x.text().c_str(),
           index.text().c_str(), y.text().c_str());
    }
    run_bytes_ = inner_ * size_of(x.dtype);
    if (index.constant)
      for (size_t k = 0; k < count_; ++k) position(index.constant, k);
  }

  void run(const Buffers& b) const override {
    const char* const x = static_cast<const char*>(b.inputs[0]);
    char* y = static_cast<char*>(b.outputs[0]);
    for (size_t o = 0; o < outer_; ++o)
      for (size_t k = 0; k < count_; ++k, y += run_bytes_)
        std::memcpy(y, x + (o * axis_ + position(b.inputs[1], k)) * run_bytes_, run_bytes_);
  }

 private:
  size_t product(size_t middle) const {
    return checked_product(checked_product(outer_, middle), inner_);
  }

  // Negative indices count from the end.
  size_t position(const void* indices, size_t k) const {
    const int64_t index =
        wide_ ? static_cast<const int64_t*>(indices)[k] : static_cast<const int32_t*>(indices)[k];
    const int64_t size = static_cast<int64_t>(axis_);
    if (index < -size || index >= size) {
      fail(Fault::kShape, "index %lld is outside of an axis of %lld", static_cast<long long>(index),
           static_cast<long long>(size));
    }
    return static_cast<size_t>(index < 0 ? index + size : index);
  }

  size_t outer_, axis_, inner_, count_, run_bytes_;
  bool wide_;
};

}  // namespace

StepPtr make_gather(const Node& node) { return std::make_unique<Gather>(node); }

}  // namespace palm
