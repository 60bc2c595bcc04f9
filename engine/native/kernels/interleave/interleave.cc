// y[o][i][j] = x_j[o][i], j counting the inputs; each element is a run of `inner` numbers of any
// type. Of channels that lie last this is the join of the inputs with its channels shuffled.
#include <cstring>

#include "base/step.h"

namespace palm {
namespace {

class Interleave : public Step {
 public:
  explicit Interleave(const Node& node)
      : inner_(node.attrs.size("inner", 1)), n_(node.inputs.size()) {
    const Tensor& y = node.any_out();
    item_ = size_of(y.dtype);
    const Tensor& first = node.any_in(0);
    row_ = first.shape.empty() ? 1 : first.shape.back();
    outer_ = row_ ? first.count / row_ : 0;
    y_pixel_ = y.is_dense() ? row_ * n_ : y.pixel();
    const bool fits_y = y.is_dense() || y.shape.back() == row_ * n_;
    if (row_ % inner_ || !fits_y || y.count != checked_product(first.count, n_)) {
      fail(Fault::kModel, "%zu of %s, runs of %zu, into %s", n_, first.text().c_str(), inner_,
           y.text().c_str());
    }
    for (size_t j = 0; j < n_; ++j) {
      const Tensor& x = node.any_in(j);
      if (x.dtype != y.dtype || x.shape != first.shape)
        fail(Fault::kModel, "%s and %s", x.text().c_str(), first.text().c_str());
      x_pixels_.push_back(x.pixel());
    }
  }

  void run(const Buffers& b) const override {
    b.pool->parallel(outer_, grain_of(row_ * n_ * kWorkOfTouching),
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
  const T* x(const Buffers& b, size_t j, size_t o) const {
    return static_cast<const T*>(b.inputs[j]) + o * x_pixels_[j];
  }

  // Elements by turns.
  template <class T>
  void row(const Buffers& b, size_t o) const {
    T* __restrict const y = static_cast<T*>(b.outputs[0]) + o * y_pixel_;
    if (n_ == 2) {
      const T* __restrict const one = x<T>(b, 0, o);
      const T* __restrict const other = x<T>(b, 1, o);
      for (size_t i = 0; i < row_; ++i) y[2 * i] = one[i], y[2 * i + 1] = other[i];
      return;
    }
    for (size_t j = 0; j < n_; ++j) {
      const T* const from = x<T>(b, j, o);
      for (size_t i = 0; i < row_; ++i) y[i * n_ + j] = from[i];
    }
  }

  void runs(const Buffers& b, size_t o) const {
    const size_t bytes = inner_ * item_;
    char* to = static_cast<char*>(b.outputs[0]) + o * y_pixel_ * item_;
    for (size_t i = 0; i < row_ / inner_; ++i) {
      for (size_t j = 0; j < n_; ++j, to += bytes) {
        const char* const from = static_cast<const char*>(b.inputs[j]);
        std::memcpy(to, from + (o * x_pixels_[j] + i * inner_) * item_, bytes);
      }
    }
  }

  size_t inner_, n_, item_, row_, outer_, y_pixel_;
  std::vector<size_t> x_pixels_;
};

}  // namespace

PALM_OPERANDS(interleave, "part*/pixels", "y/pixels")
StepPtr make_interleave(const Node& node) { return std::make_unique<Interleave>(node); }

}  // namespace palm
