// The k greatest or least elements along an axis, best first, and where they lie. Of equal ones the
// first comes first; a NaN is the greatest of all.
#include <algorithm>

#include "base/arena.h"
#include "kernels/arithmetic.h"
#include "kernels/axis.h"

namespace palm {
namespace {

constexpr Operands kOperands{"x", "y indices"};
constexpr size_t kIndices = kOperands.output("indices");

struct Line {
  size_t n, k;
  ptrdiff_t step;
  const void* x;
  void* values;
  int64_t* indices;
};
using Run = void (*)(const Line& line, uint32_t* order);

template <class T>
bool is_greater(T a, T b) {
  return is_nan(a) ? !is_nan(b) : a > b;
}

template <class T, bool kLargest>
void select(const Line& line, uint32_t* order) {
  const T* const x = static_cast<const T*>(line.x);
  T* const values = static_cast<T*>(line.values);
  const auto value = [&](uint32_t i) { return x[static_cast<ptrdiff_t>(i) * line.step]; };
  for (size_t i = 0; i < line.n; ++i) order[i] = static_cast<uint32_t>(i);
  const auto before = [&](uint32_t i, uint32_t j) {
    const T a = value(i), b = value(j);
    if (kLargest ? is_greater(a, b) : is_greater(b, a)) return true;
    if (kLargest ? is_greater(b, a) : is_greater(a, b)) return false;
    return i < j;
  };
  // Selecting before sorting pays where few of many are wanted.
  if (line.k < line.n) std::nth_element(order, order + line.k, order + line.n, before);
  std::sort(order, order + line.k, before);
  for (size_t i = 0; i < line.k; ++i) {
    const ptrdiff_t at = static_cast<ptrdiff_t>(i) * line.step;
    values[at] = value(order[i]);
    line.indices[at] = order[i];
  }
}

template <class T>
Run find(bool largest) {
  return largest ? &select<T, true> : &select<T, false>;
}

Run find(DType dtype, bool largest) {
  switch (dtype) {
    case DType::kFloat32: return find<float>(largest);
    case DType::kInt32: return find<int32_t>(largest);
    case DType::kInt64: return find<int64_t>(largest);
    default: fail(Fault::kUnsupported, "%s", name_of(dtype));
  }
}

class TopK : public Step {
 public:
  explicit TopK(const Node& node) : axis_(node), k_(node.attrs.size("k")) {
    const Tensor &x = axis_.check(node.any_in(0), axis_.size),
                 &values = axis_.check(node.any_out(), k_);
    axis_.check(node.out(kIndices, DType::kInt64), k_);
    if (x.dtype != values.dtype || k_ > axis_.size || axis_.size > UINT32_MAX)
      fail(Fault::kModel, "%zu of %s into %s", k_, x.text().c_str(), values.text().c_str());
    run_ = find(x.dtype, node.attrs.integer("largest", 1) != 0);
    item_ = size_of(x.dtype);
  }

  size_t scratch_bytes(int threads) const override {
    return checked_product(static_cast<size_t>(threads), order_bytes());
  }

  void run(const Buffers& b) const override {
    b.pool->parallel(
        axis_.lines(), grain_of(axis_.size * kWorkOfTouching * 4),
        [&](size_t begin, size_t end, int thread) {
          char* const order = b.scratch + static_cast<size_t>(thread) * order_bytes();
          for (size_t i = begin; i < end; ++i) {
            const size_t to = axis_.line(i, k_);
            run_({axis_.size, k_, static_cast<ptrdiff_t>(axis_.inner),
                  static_cast<const char*>(b.inputs[0]) + axis_.line(i, axis_.size) * item_,
                  static_cast<char*>(b.outputs[0]) + to * item_,
                  static_cast<int64_t*>(b.outputs[kIndices]) + to},
                 reinterpret_cast<uint32_t*>(order));
          }
        });
  }

 private:
  size_t order_bytes() const { return round_up(axis_.size * sizeof(uint32_t)); }

  Axis axis_;
  size_t k_, item_;
  Run run_;
};

}  // namespace

PALM_OPERANDS(top_k, kOperands)
StepPtr make_top_k(const Node& node) { return std::make_unique<TopK>(node); }

}  // namespace palm
