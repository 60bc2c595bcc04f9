// y[b][k] = x[b][tuple[b][k]]: whole runs of elements of any type.
#include <cstring>

#include "kernels/tuples.h"

namespace palm {
namespace {

constexpr Operands kOperands{"x indices", "y"};
constexpr size_t kX = kOperands.input("x"), kIndices = kOperands.input("indices");

class GatherNd : public Step {
 public:
  explicit GatherNd(const Node& node) : tuples_(node, 1) {
    const Tensor &x = node.any_in(kX), &y = node.any_out();
    if (x.dtype != y.dtype || x.count != tuples_.array() ||
        y.count != checked_product(tuples_.count(), tuples_.inner())) {
      fail(Fault::kModel, "%s into %s", x.text().c_str(), y.text().c_str());
    }
    run_bytes_ = tuples_.inner() * size_of(x.dtype);
  }

  void run(const Buffers& b) const override {
    const char* const x = static_cast<const char*>(b.inputs[kX]);
    char* y = static_cast<char*>(b.outputs[0]);
    for (size_t k = 0; k < tuples_.count(); ++k, y += run_bytes_)
      std::memcpy(y, x + tuples_.run(b.inputs[kIndices], k) * run_bytes_, run_bytes_);
  }

 private:
  Tuples tuples_;
  size_t run_bytes_;
};

}  // namespace

PALM_OPERANDS(gather_nd, kOperands)
StepPtr make_gather_nd(const Node& node) { return std::make_unique<GatherNd>(node); }

}  // namespace palm
