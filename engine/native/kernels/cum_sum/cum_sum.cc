// Sums of all elements up to each one along an axis, or before it; from the end if reverse.
#include "kernels/arithmetic.h"
#include "kernels/axis.h"

namespace palm {
namespace {

using Run = void (*)(size_t n, ptrdiff_t step, bool exclusive, const void* x, void* y);

template <class T>
void sum(size_t n, ptrdiff_t step, bool exclusive, const void* x, void* y) {
  const T* from = static_cast<const T*>(x);
  T* to = static_cast<T*>(y);
  T so_far{};
  for (size_t i = 0; i < n; ++i, from += step, to += step) {
    const T next = Add()(so_far, *from);
    *to = exclusive ? so_far : next;
    so_far = next;
  }
}

Run find(DType dtype) {
  switch (dtype) {
    case DType::kFloat32: return &sum<float>;
    case DType::kFloat64: return &sum<double>;
    case DType::kInt32: return &sum<int32_t>;
    case DType::kInt64: return &sum<int64_t>;
    default: fail(Fault::kUnsupported, "%s", name_of(dtype));
  }
}

class CumSum : public Step {
 public:
  explicit CumSum(const Node& node) : axis_(node) {
    const Tensor &x = axis_.check(node.any_in(0), axis_.size),
                 &y = axis_.check(node.any_out(), axis_.size);
    if (x.dtype != y.dtype) fail(Fault::kModel, "%s into %s", x.text().c_str(), y.text().c_str());
    run_ = find(x.dtype);
    item_ = size_of(x.dtype);
    exclusive_ = node.attrs.integer("exclusive", 0) != 0;
    reverse_ = node.attrs.integer("reverse", 0) != 0;
  }

  void run(const Buffers& b) const override {
    const ptrdiff_t step = static_cast<ptrdiff_t>(axis_.inner);
    b.pool->parallel(
        axis_.lines(), grain_of(axis_.size * kWorkOfTouching), [&](size_t begin, size_t end, int) {
          for (size_t i = begin; i < end; ++i) {
            const size_t first = axis_.line(i, axis_.size);
            const size_t at = (first + (reverse_ ? (axis_.size - 1) * axis_.inner : 0)) * item_;
            run_(axis_.size, reverse_ ? -step : step, exclusive_,
                 static_cast<const char*>(b.inputs[0]) + at, static_cast<char*>(b.outputs[0]) + at);
          }
        });
  }

  bool in_place(size_t) const override { return true; }

 private:
  Axis axis_;
  Run run_;
  size_t item_;
  bool exclusive_, reverse_;
};

}  // namespace

PALM_OPERANDS(cum_sum, "x", "y")
StepPtr make_cum_sum(const Node& node) { return std::make_unique<CumSum>(node); }

}  // namespace palm
