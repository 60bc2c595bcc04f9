// Operations on elements of any type, broadcast by strides: what is not float32 arithmetic.
#include <algorithm>
#include <cmath>

#include "base/step.h"
#include "kernels/arithmetic.h"

namespace palm {
namespace {

constexpr size_t kMostOperands = 3;

// A run of n elements; y lies side by side, the operands step by step[i].
struct Run {
  size_t n;
  const void* x[kMostOperands];
  ptrdiff_t step[kMostOperands];
  void* y;
};
using Loop = void (*)(const Run& run);

struct Equal {
  template <class T>
  bool operator()(T a, T b) const {
    return a == b;
  }
};
struct Less {
  template <class T>
  bool operator()(T a, T b) const {
    return a < b;
  }
};
struct LessOrEqual {
  template <class T>
  bool operator()(T a, T b) const {
    return a <= b;
  }
};
struct Greater {
  template <class T>
  bool operator()(T a, T b) const {
    return a > b;
  }
};
struct GreaterOrEqual {
  template <class T>
  bool operator()(T a, T b) const {
    return a >= b;
  }
};
// Of bools, bytes that are 0 or not.
struct And {
  bool operator()(uint8_t a, uint8_t b) const { return a && b; }
};
struct Or {
  bool operator()(uint8_t a, uint8_t b) const { return a || b; }
};
struct Xor {
  bool operator()(uint8_t a, uint8_t b) const { return !a != !b; }
};
struct Same {
  bool operator()(uint8_t a, uint8_t b) const { return !a == !b; }
};
struct Not {
  bool operator()(uint8_t a) const { return !a; }
};
struct IsNan {
  template <class T>
  bool operator()(T a) const {
    return is_nan(a);
  }
};
struct Neg {
  template <class T>
  T operator()(T a) const {
    return Sub()(T{0}, a);
  }
};
struct Abs {
  template <class T>
  T operator()(T a) const {
    return a < 0 ? Sub()(T{0}, a) : a;
  }
};
struct Sign {
  template <class T>
  T operator()(T a) const {
    return is_nan(a) ? a : static_cast<T>((a > 0) - (a < 0));
  }
};

template <class Op, class T, class R>
void unary(const Run& r) {
  const T* const a = static_cast<const T*>(r.x[0]);
  R* const y = static_cast<R*>(r.y);
  for (ptrdiff_t i = 0; i < static_cast<ptrdiff_t>(r.n); ++i)
    y[i] = static_cast<R>(Op()(a[i * r.step[0]]));
}

template <class Op, class T, class R>
void binary(const Run& r) {
  const T* const a = static_cast<const T*>(r.x[0]);
  const T* const b = static_cast<const T*>(r.x[1]);
  R* const y = static_cast<R*>(r.y);
  for (ptrdiff_t i = 0; i < static_cast<ptrdiff_t>(r.n); ++i)
    y[i] = static_cast<R>(Op()(a[i * r.step[0]], b[i * r.step[1]]));
}

template <class T>
void where(const Run& r) {
  const uint8_t* const condition = static_cast<const uint8_t*>(r.x[0]);
  const T* const a = static_cast<const T*>(r.x[1]);
  const T* const b = static_cast<const T*>(r.x[2]);
  T* const y = static_cast<T*>(r.y);
  const ptrdiff_t n = static_cast<ptrdiff_t>(r.n);
  if (r.step[0] == 1 && r.step[1] == 0 && r.step[2] == 1) {  // a mask over scores
    for (ptrdiff_t i = 0; i < n; ++i) y[i] = condition[i] ? *a : b[i];
  } else {
    for (ptrdiff_t i = 0; i < n; ++i)
      y[i] = condition[i * r.step[0]] ? a[i * r.step[1]] : b[i * r.step[2]];
  }
}

struct Chosen {
  Loop loop;
  size_t operands;
  DType result;
};

template <class Op>
Chosen arithmetic(DType dtype) {
  switch (dtype) {
    case DType::kFloat32: return {&binary<Op, float, float>, 2, dtype};
    case DType::kFloat64: return {&binary<Op, double, double>, 2, dtype};
    case DType::kInt8: return {&binary<Op, int8_t, int8_t>, 2, dtype};
    case DType::kUint8: return {&binary<Op, uint8_t, uint8_t>, 2, dtype};
    case DType::kInt32: return {&binary<Op, int32_t, int32_t>, 2, dtype};
    case DType::kInt64: return {&binary<Op, int64_t, int64_t>, 2, dtype};
    default: fail(Fault::kUnsupported, "%s", name_of(dtype));
  }
}

template <class Op>
Chosen comparison(DType dtype) {
  switch (dtype) {
    case DType::kFloat32: return {&binary<Op, float, uint8_t>, 2, DType::kBool};
    case DType::kFloat64: return {&binary<Op, double, uint8_t>, 2, DType::kBool};
    case DType::kInt8: return {&binary<Op, int8_t, uint8_t>, 2, DType::kBool};
    case DType::kUint8: return {&binary<Op, uint8_t, uint8_t>, 2, DType::kBool};
    case DType::kInt32: return {&binary<Op, int32_t, uint8_t>, 2, DType::kBool};
    case DType::kInt64: return {&binary<Op, int64_t, uint8_t>, 2, DType::kBool};
    default: fail(Fault::kUnsupported, "%s", name_of(dtype));
  }
}

template <class Op>
Chosen sign_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat32: return {&unary<Op, float, float>, 1, dtype};
    case DType::kInt8: return {&unary<Op, int8_t, int8_t>, 1, dtype};
    case DType::kInt32: return {&unary<Op, int32_t, int32_t>, 1, dtype};
    case DType::kInt64: return {&unary<Op, int64_t, int64_t>, 1, dtype};
    default: fail(Fault::kUnsupported, "%s", name_of(dtype));
  }
}

template <class Op>
Chosen logical(DType dtype) {
  if (dtype != DType::kBool) fail(Fault::kUnsupported, "%s", name_of(dtype));
  return {&binary<Op, uint8_t, uint8_t>, 2, DType::kBool};
}

Chosen choose(const std::string& op, DType dtype) {
  if (op == "add") return arithmetic<Add>(dtype);
  if (op == "sub") return arithmetic<Sub>(dtype);
  if (op == "mul") return arithmetic<Mul>(dtype);
  if (op == "div") return arithmetic<Div>(dtype);
  if (op == "max") return arithmetic<Max>(dtype);
  if (op == "min") return arithmetic<Min>(dtype);
  if (op == "mod") return arithmetic<Mod>(dtype);
  if (op == "fmod") return arithmetic<Fmod>(dtype);
  if (op == "equal") {
    // Any byte but 0 is true.
    return dtype == DType::kBool ? Chosen{&binary<Same, uint8_t, uint8_t>, 2, DType::kBool}
                                 : comparison<Equal>(dtype);
  }
  if (op == "less") return comparison<Less>(dtype);
  if (op == "less_or_equal") return comparison<LessOrEqual>(dtype);
  if (op == "greater") return comparison<Greater>(dtype);
  if (op == "greater_or_equal") return comparison<GreaterOrEqual>(dtype);
  if (op == "and") return logical<And>(dtype);
  if (op == "or") return logical<Or>(dtype);
  if (op == "xor") return logical<Xor>(dtype);
  if (op == "not") {
    if (dtype != DType::kBool) fail(Fault::kUnsupported, "%s", name_of(dtype));
    return {&unary<Not, uint8_t, uint8_t>, 1, DType::kBool};
  }
  if (op == "is_nan") {
    if (dtype != DType::kFloat32) fail(Fault::kUnsupported, "%s", name_of(dtype));
    return {&unary<IsNan, float, uint8_t>, 1, DType::kBool};
  }
  if (op == "neg") return sign_of<Neg>(dtype);
  if (op == "abs") return sign_of<Abs>(dtype);
  if (op == "sign") return sign_of<Sign>(dtype);
  fail(Fault::kUnsupported, "no op %.40s", op.c_str());
}

Chosen choose_where(DType dtype) {
  switch (size_of(dtype)) {
    case 1: return {&where<uint8_t>, 3, dtype};
    case 2: return {&where<uint16_t>, 3, dtype};
    case 4: return {&where<uint32_t>, 3, dtype};
    default: return {&where<uint64_t>, 3, dtype};
  }
}

class Elementwise : public Step {
 public:
  explicit Elementwise(const Node& node) : shape_(node.attrs.integers("shape")) {
    constexpr const char* kNames[kMostOperands] = {"a_strides", "b_strides", "c_strides"};
    const std::string op = node.attrs.text("op");
    const bool is_where = op == "where";
    const DType dtype = node.any_in(is_where).dtype;
    chosen_ = is_where ? choose_where(dtype) : choose(op, dtype);
    const Tensor& y = node.any_out();
    if (y.dtype != chosen_.result || y.count != checked_product(shape_))
      fail(Fault::kModel, "%s of %s into %s", op.c_str(), name_of(dtype), y.text().c_str());
    for (size_t i = 0; i < chosen_.operands; ++i) {
      const Tensor& x = node.any_in(i);
      if (x.dtype != (is_where && i == 0 ? DType::kBool : dtype))
        fail(Fault::kModel, "%s: input %zu is %s", op.c_str(), i, x.text().c_str());
      strides_[i] = node.attrs.integers(kNames[i]);
      check_bounds(kNames[i], shape_, strides_[i], 0, x.count);
      sizes_[i] = static_cast<ptrdiff_t>(size_of(x.dtype));
    }
    count_ = y.count;
    for (size_t i = 0; i < chosen_.operands; ++i)
      same_[i] = is_dense(shape_, strides_[i]) && node.any_in(i).count == count_ &&
                 size_of(node.any_in(i).dtype) == size_of(y.dtype);
    if (count_ == 0) return;
    columns_ = shape_.empty() ? 1 : static_cast<size_t>(shape_.back());
    if (!shape_.empty()) shape_.pop_back();
    for (size_t i = 0; i < chosen_.operands; ++i) {
      steps_[i] = strides_[i].empty() ? 0 : strides_[i].back();
      if (!strides_[i].empty()) strides_[i].pop_back();
    }
  }

  bool in_place(size_t i) const override { return i < kMostOperands && same_[i]; }

  void run(const Buffers& b) const override {
    const size_t size = size_of(chosen_.result);
    b.pool->parallel(count_, grain_of(kWorkOfTouching * 2), [&](size_t begin, size_t end, int) {
      while (begin < end) {
        const size_t row = begin / columns_, column = begin % columns_;
        Run run{std::min(end - begin, columns_ - column), {}, {}, nullptr};
        for (size_t i = 0; i < chosen_.operands; ++i) {
          const ptrdiff_t at =
              offset_of(row, shape_, strides_[i]) + static_cast<ptrdiff_t>(column) * steps_[i];
          run.x[i] = static_cast<const char*>(b.inputs[i]) + at * sizes_[i];
          run.step[i] = steps_[i];
        }
        run.y = static_cast<char*>(b.outputs[0]) + begin * size;
        chosen_.loop(run);
        begin += run.n;
      }
    });
  }

 private:
  Ints shape_;  // but for the columns
  Ints strides_[kMostOperands];
  ptrdiff_t steps_[kMostOperands] = {}, sizes_[kMostOperands] = {};
  bool same_[kMostOperands] = {};
  Chosen chosen_;
  size_t count_, columns_ = 1;
};

}  // namespace

PALM_OPERANDS(elementwise, "a b c", "y")
StepPtr make_elementwise(const Node& node) { return std::make_unique<Elementwise>(node); }

}  // namespace palm
