// Where along an axis the greatest element lies, or the least: the first one, or the last. The
// first NaN wins, as in numpy.
#include "kernels/arithmetic.h"
#include "kernels/axis.h"

namespace palm {
namespace {

using Run = int64_t (*)(size_t n, ptrdiff_t step, const void* x);

template <class T, bool kMax, bool kLast>
int64_t find_best(size_t n, ptrdiff_t step, const void* x) {
  const T* const from = static_cast<const T*>(x);
  size_t best = kLast ? n - 1 : 0;
  for (size_t k = 1; k < n; ++k) {
    const size_t i = kLast ? n - 1 - k : k;
    const T a = from[static_cast<ptrdiff_t>(i) * step];
    const T b = from[static_cast<ptrdiff_t>(best) * step];
    if (!is_nan(b) && (is_nan(a) || (kMax ? a > b : a < b))) best = i;
  }
  return static_cast<int64_t>(best);
}

template <class T>
Run find(bool max, bool last) {
  if (max) return last ? &find_best<T, true, true> : &find_best<T, true, false>;
  return last ? &find_best<T, false, true> : &find_best<T, false, false>;
}

Run find(DType dtype, bool max, bool last) {
  switch (dtype) {
    case DType::kFloat32: return find<float>(max, last);
    case DType::kInt8: return find<int8_t>(max, last);
    case DType::kUint8: return find<uint8_t>(max, last);
    case DType::kInt32: return find<int32_t>(max, last);
    case DType::kInt64: return find<int64_t>(max, last);
    default: fail(Fault::kUnsupported, "%s", name_of(dtype));
  }
}

class ArgMax : public Step {
 public:
  explicit ArgMax(const Node& node) : axis_(node) {
    const Tensor& x = axis_.check(node.any_in(0), axis_.size);
    const std::string op = node.attrs.text("op");
    if (op != "max" && op != "min") fail(Fault::kModel, "attribute op: %.40s", op.c_str());
    if (axis_.size == 0) fail(Fault::kUnsupported, "an empty axis");
    run_ = find(x.dtype, op == "max", node.attrs.integer("last", 0) != 0);
    item_ = size_of(x.dtype);
    axis_.check(node.out(0, DType::kInt64), 1);
  }

  void run(const Buffers& b) const override {
    b.pool->parallel(
        axis_.lines(), grain_of(axis_.size * kWorkOfTouching), [&](size_t begin, size_t end, int) {
          for (size_t i = begin; i < end; ++i) {
            static_cast<int64_t*>(b.outputs[0])[i] =
                run_(axis_.size, static_cast<ptrdiff_t>(axis_.inner),
                     static_cast<const char*>(b.inputs[0]) + axis_.line(i, axis_.size) * item_);
          }
        });
  }

 private:
  Axis axis_;
  Run run_;
  size_t item_;
};

}  // namespace

PALM_OPERANDS(arg_max, "x", "y")
StepPtr make_arg_max(const Node& node) { return std::make_unique<ArgMax>(node); }

}  // namespace palm
