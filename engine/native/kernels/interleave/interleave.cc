// y[o][i][j] = x_j[o][first + i], j counting the inputs; each element is a run of `inner` numbers
// of any type. Of channels that lie last this is the join of the inputs with its channels shuffled.
#include <cstring>

#include "base/step.h"

namespace palm {
namespace {

// `count` elements from `n` arrays by turns.
template <class T>
void by_turns(size_t n, const void* const* x, size_t first, size_t count, T* __restrict y) {
  if (n == 2) {
    const T* __restrict const a = static_cast<const T*>(x[0]) + first;
    const T* __restrict const b = static_cast<const T*>(x[1]) + first;
    for (size_t i = 0; i < count; ++i) y[2 * i] = a[i], y[2 * i + 1] = b[i];
    return;
  }
  for (size_t j = 0; j < n; ++j) {
    const T* const from = static_cast<const T*>(x[j]) + first;
    for (size_t i = 0; i < count; ++i) y[i * n + j] = from[i];
  }
}

class Interleave : public Step {
 public:
  explicit Interleave(const Node& node)
      : outer_(node.attrs.size("outer")),
        axis_(node.attrs.size("axis", 1)),
        inner_(node.attrs.size("inner", 1)),
        first_(node.attrs.size("first")),
        n_(node.inputs.size()) {
    const Tensor& y = node.any_out();
    item_ = size_of(y.dtype);
    const size_t count = checked_product(checked_product(outer_, axis_), inner_);
    for (size_t j = 0; j < n_; ++j) {
      const Tensor& x = node.any_in(j);
      if (x.dtype != y.dtype || x.count != count)
        fail(Fault::kModel, "%s into %s", x.text().c_str(), y.text().c_str());
    }
    const size_t whole = checked_product(checked_product(outer_, inner_), n_ ? n_ : 1);
    kept_ = whole ? y.count / whole : 0;
    if (!n_ || y.count != checked_product(whole, kept_) || first_ > axis_ || kept_ > axis_ - first_)
      fail(Fault::kModel, "%zu of %zu elements into %s", first_, axis_, y.text().c_str());
  }

  void run(const Buffers& b) const override {
    const size_t floats = kept_ * n_ * inner_;
    b.pool->parallel(outer_, grain_of(floats * kWorkOfTouching),
                     [&](size_t begin, size_t end, int) {
                       for (size_t o = begin; o < end; ++o) {
                         if (inner_ > 1) runs(b, o);
                         else if (item_ == 1) row<uint8_t>(b, o);
                         else if (item_ == 2) row<uint16_t>(b, o);
                         else if (item_ == 4) row<uint32_t>(b, o);
                         else row<uint64_t>(b, o);
                       }
                     });
  }

 private:
  template <class T>
  void row(const Buffers& b, size_t o) const {
    by_turns(n_, b.inputs, o * axis_ + first_, kept_,
             static_cast<T*>(b.outputs[0]) + o * kept_ * n_);
  }

  void runs(const Buffers& b, size_t o) const {
    const size_t bytes = inner_ * item_;
    char* to = static_cast<char*>(b.outputs[0]) + o * kept_ * n_ * bytes;
    for (size_t i = 0; i < kept_; ++i) {
      for (size_t j = 0; j < n_; ++j, to += bytes) {
        const char* const x = static_cast<const char*>(b.inputs[j]);
        std::memcpy(to, x + (o * axis_ + first_ + i) * bytes, bytes);
      }
    }
  }

  size_t outer_, axis_, inner_, first_, n_, item_, kept_ = 0;
};

}  // namespace

PALM_OPERANDS(interleave, "part*", "y")
StepPtr make_interleave(const Node& node) { return std::make_unique<Interleave>(node); }

}  // namespace palm
