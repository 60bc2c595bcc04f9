// y = x, but for y[tuple[k]], which becomes update[k], or is combined with it.
#include <cstring>

#include "kernels/tuples.h"

namespace palm {
namespace {

constexpr Operands kOperands{"x indices updates", "y"};
constexpr size_t kX = kOperands.input("x"), kIndices = kOperands.input("indices"),
                 kUpdates = kOperands.input("updates");

class ScatterNd : public Step {
 public:
  explicit ScatterNd(const Node& node)
      : tuples_(node, 1),
        combine_(find_combine(node.attrs.text("reduction", "none"), node.any_in(kX).dtype)) {
    const Tensor &x = node.any_in(kX), &updates = node.any_in(kUpdates), &y = node.any_out();
    if (x.dtype != y.dtype || x.count != tuples_.array() || y.count != x.count ||
        updates.dtype != x.dtype ||
        updates.count != checked_product(tuples_.count(), tuples_.inner())) {
      fail(Fault::kModel, "%s and %s into %s", x.text().c_str(), updates.text().c_str(),
           y.text().c_str());
    }
    bytes_ = x.bytes();
    run_bytes_ = tuples_.inner() * size_of(x.dtype);
  }

  void run(const Buffers& b) const override {
    char* const y = static_cast<char*>(b.outputs[0]);
    const char* update = static_cast<const char*>(b.inputs[kUpdates]);
    if (y != b.inputs[kX]) std::memcpy(y, b.inputs[kX], bytes_);
    for (size_t k = 0; k < tuples_.count(); ++k, update += run_bytes_)
      combine_(tuples_.inner(), update, y + tuples_.run(b.inputs[kIndices], k) * run_bytes_);
  }

  bool in_place(size_t i) const override { return i == kX; }

 private:
  Tuples tuples_;
  Combine combine_;
  size_t bytes_, run_bytes_;
};

}  // namespace

PALM_OPERANDS(scatter_nd, kOperands)
StepPtr make_scatter_nd(const Node& node) { return std::make_unique<ScatterNd>(node); }

}  // namespace palm
