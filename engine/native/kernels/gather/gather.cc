// y[o][k][i] = x[o][index[k]][i]: whole runs of `inner` elements of any type.
#include <cstring>

#include "kernels/indices.h"

namespace palm {
namespace {

constexpr Operands kOperands{"x indices", "y"};
constexpr size_t kX = kOperands.input("x"), kIndices = kOperands.input("indices");

class Gather : public Step {
 public:
  explicit Gather(const Node& node)
      : outer_(node.attrs.size("outer")),
        axis_(node.attrs.size("axis")),
        inner_(node.attrs.size("inner")),
        indices_(node.any_in(kIndices)) {
    const Tensor &x = node.any_in(kX), &index = node.any_in(kIndices), &y = node.any_out();
    count_ = index.count;
    if (x.dtype != y.dtype || x.count != product(axis_) || y.count != product(count_)) {
      fail(Fault::kModel, "%s by %s into %s does not fit its attributes", x.text().c_str(),
           index.text().c_str(), y.text().c_str());
    }
    run_bytes_ = inner_ * size_of(x.dtype);
    if (index.constant)
      for (size_t k = 0; k < count_; ++k) indices_.at(index.constant, k, axis_);
  }

  void run(const Buffers& b) const override {
    const char* const x = static_cast<const char*>(b.inputs[kX]);
    char* y = static_cast<char*>(b.outputs[0]);
    for (size_t o = 0; o < outer_; ++o)
      for (size_t k = 0; k < count_; ++k, y += run_bytes_)
        std::memcpy(y, x + (o * axis_ + indices_.at(b.inputs[kIndices], k, axis_)) * run_bytes_,
                    run_bytes_);
  }

 private:
  size_t product(size_t middle) const {
    return checked_product(checked_product(outer_, middle), inner_);
  }

  size_t outer_, axis_, inner_, count_, run_bytes_;
  Indices indices_;
};

}  // namespace

PALM_OPERANDS(gather, kOperands)
StepPtr make_gather(const Node& node) { return std::make_unique<Gather>(node); }

}  // namespace palm
