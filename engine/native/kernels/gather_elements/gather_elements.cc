// y[i][j][k] = x[i][index[i][j][k]][k], for axis 1 of three: elements of any type.
#include "kernels/lines.h"

namespace palm {
namespace {

constexpr Operands kOperands{"x indices", "y"};
constexpr size_t kX = kOperands.input("x"), kIndices = kOperands.input("indices");

class GatherElements : public Step {
 public:
  explicit GatherElements(const Node& node) : lines_(node, 1) {
    const Tensor &x = node.any_in(kX), &index = node.any_in(kIndices), &y = node.any_out();
    if (x.dtype != y.dtype || x.count != lines_.array() || y.count != index.count)
      fail(Fault::kModel, "%s into %s", x.text().c_str(), y.text().c_str());
    count_ = y.count;
    item_ = size_of(x.dtype);
  }

  void run(const Buffers& b) const override {
    if (item_ == 1) gather<uint8_t>(b);
    else if (item_ == 2) gather<uint16_t>(b);
    else if (item_ == 4) gather<uint32_t>(b);
    else gather<uint64_t>(b);
  }

 private:
  template <class T>
  void gather(const Buffers& b) const {
    for (size_t k = 0; k < count_; ++k)
      static_cast<T*>(b.outputs[0])[k] =
          static_cast<const T*>(b.inputs[kX])[lines_.at(b.inputs[kIndices], k)];
  }

  Lines lines_;
  size_t count_, item_;
};

}  // namespace

PALM_OPERANDS(gather_elements, kOperands)
StepPtr make_gather_elements(const Node& node) { return std::make_unique<GatherElements>(node); }

}  // namespace palm
