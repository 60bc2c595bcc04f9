// Reductions of integers: sum, max, min and prod, over any dims. Attributes as those of reduce.
#include "base/step.h"
#include "kernels/arithmetic.h"

namespace palm {
namespace {

struct Dims {
  Ints out_shape, out_strides, red_shape, red_strides;
};

using Run = void (*)(const Dims& dims, size_t rows, size_t begin, size_t end, const void* x,
                     void* y);

template <class Op, class T>
T reduce(const Dims& dims, size_t rows, const T* x) {
  T so_far = *x;
  if (dims.red_shape.size() == 1) {
    const ptrdiff_t step = dims.red_strides[0];
    for (ptrdiff_t i = 1; i < static_cast<ptrdiff_t>(rows); ++i) so_far = Op()(so_far, x[i * step]);
  } else {
    for (size_t i = 1; i < rows; ++i)
      so_far = Op()(so_far, x[offset_of(i, dims.red_shape, dims.red_strides)]);
  }
  return so_far;
}

template <class Op, class T>
void reduce_all(const Dims& dims, size_t rows, size_t begin, size_t end, const void* x, void* y) {
  for (size_t i = begin; i < end; ++i) {
    const T* const from = static_cast<const T*>(x) + offset_of(i, dims.out_shape, dims.out_strides);
    static_cast<T*>(y)[i] = reduce<Op>(dims, rows, from);
  }
}

template <class Op>
Run find(DType dtype) {
  switch (dtype) {
    case DType::kInt32: return &reduce_all<Op, int32_t>;
    case DType::kInt64: return &reduce_all<Op, int64_t>;
    case DType::kInt8: return &reduce_all<Op, int8_t>;
    case DType::kUint8: return &reduce_all<Op, uint8_t>;
    default: return nullptr;
  }
}

Run find(const std::string& op, DType dtype) {
  if (op == "sum") return find<Add>(dtype);
  if (op == "max") return find<Max>(dtype);
  if (op == "min") return find<Min>(dtype);
  if (op == "prod") return find<Mul>(dtype);
  return nullptr;
}

class ReduceIntegers : public Step {
 public:
  explicit ReduceIntegers(const Node& node)
      : dims_{node.attrs.integers("out_shape"), node.attrs.integers("out_strides"),
              node.attrs.integers("red_shape"), node.attrs.integers("red_strides")} {
    const Tensor &x = node.any_in(0), &y = node.any_out();
    const std::string op = node.attrs.text("op");
    run_ = find(op, x.dtype);
    if (!run_) fail(Fault::kUnsupported, "%.40s of %s", op.c_str(), name_of(x.dtype));
    Ints shape = dims_.out_shape, strides = dims_.out_strides;
    if (strides.size() != shape.size()) fail(Fault::kModel, "out_strides do not fit out_shape");
    shape.insert(shape.end(), dims_.red_shape.begin(), dims_.red_shape.end());
    strides.insert(strides.end(), dims_.red_strides.begin(), dims_.red_strides.end());
    check_bounds("input 0", shape, strides, 0, x.count);
    rows_ = checked_product(dims_.red_shape);
    count_ = checked_product(dims_.out_shape);
    if (count_ != y.count || x.dtype != y.dtype)
      fail(Fault::kModel, "%s into %s", x.text().c_str(), y.text().c_str());
    if (rows_ == 0) fail(Fault::kUnsupported, "nothing to reduce");
    if (count_ && rows_ > x.count / count_)
      fail(Fault::kModel, "%zu times %zu elements of %s", count_, rows_, x.text().c_str());
  }

  void run(const Buffers& b) const override {
    b.pool->parallel(count_, grain_of(rows_ * kWorkOfTouching), [&](size_t begin, size_t end, int) {
      run_(dims_, rows_, begin, end, b.inputs[0], b.outputs[0]);
    });
  }

 private:
  Dims dims_;
  Run run_;
  size_t rows_, count_;
};

}  // namespace

PALM_OPERANDS(reduce_integers, "x", "y")
StepPtr make_reduce_integers(const Node& node) { return std::make_unique<ReduceIntegers>(node); }

}  // namespace palm
