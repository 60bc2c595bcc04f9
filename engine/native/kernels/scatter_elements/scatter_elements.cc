// y = x, but for y[i][index[i][j][k]][k] (axis 1 of three), which becomes update[i][j][k], or is
// combined with it.
#include <cstring>

#include "kernels/lines.h"

namespace palm {
namespace {

constexpr Operands kOperands{"x indices updates", "y"};
constexpr size_t kX = kOperands.input("x"), kIndices = kOperands.input("indices"),
                 kUpdates = kOperands.input("updates");

class ScatterElements : public Step {
 public:
  explicit ScatterElements(const Node& node)
      : lines_(node, 1),
        combine_(find_combine(node.attrs.text("reduction", "none"), node.any_in(kX).dtype)) {
    const Tensor &x = node.any_in(kX), &index = node.any_in(kIndices), &updates = node.any_in(kUpdates);
    const Tensor& y = node.any_out();
    if (x.dtype != y.dtype || x.count != lines_.array() || y.count != x.count ||
        updates.dtype != x.dtype || updates.count != index.count) {
      fail(Fault::kModel, "%s and %s into %s", x.text().c_str(), updates.text().c_str(),
           y.text().c_str());
    }
    count_ = index.count;
    item_ = size_of(x.dtype);
    bytes_ = x.bytes();
  }

  void run(const Buffers& b) const override {
    char* const y = static_cast<char*>(b.outputs[0]);
    const char* update = static_cast<const char*>(b.inputs[kUpdates]);
    if (y != b.inputs[kX]) std::memcpy(y, b.inputs[kX], bytes_);
    for (size_t k = 0; k < count_; ++k, update += item_)
      combine_(1, update, y + lines_.at(b.inputs[kIndices], k) * item_);
  }

  bool in_place(size_t i) const override { return i == kX; }

 private:
  Lines lines_;
  Combine combine_;
  size_t count_, item_, bytes_;
};

}  // namespace

PALM_OPERANDS(scatter_elements, kOperands)
StepPtr make_scatter_elements(const Node& node) { return std::make_unique<ScatterElements>(node); }

}  // namespace palm
