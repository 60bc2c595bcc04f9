#include "kernels/softmax/softmax.h"

#include <cmath>

#include "kernels/window.h"

namespace palm {
namespace {

class Softmax : public Step {
 public:
  explicit Softmax(const Node& node) : run_(find_softmax(node.isa)) {
    outer_ = node.attrs.size("outer");
    axis_ = node.attrs.size("axis");
    inner_ = node.attrs.size("inner");
    log_ = node.attrs.integer("log", 0) != 0;
    const size_t count = checked_product(checked_product(outer_, axis_), inner_);
    if (node.in(0).count != count || node.out().count != count) {
      fail(Fault::kModel, "%s into %s: expected %zu elements", node.in(0).text().c_str(),
           node.out().text().c_str(), count);
    }
  }

  void run(const Buffers& b) const override {
    const size_t size = axis_ * inner_;
    b.pool->parallel(
        outer_, grain_of(size * kWorkOfTouching * 4), [&](size_t begin, size_t end, int) {
          run_(log_, end - begin, axis_, inner_, b.in(0) + begin * size, b.out() + begin * size);
        });
  }

  bool in_place(size_t) const override { return true; }

 private:
  SoftmaxFn run_;
  size_t outer_, axis_, inner_;
  bool log_;
};

}  // namespace

SoftmaxFn find_softmax(uint32_t isa) {
#define PALM_KERNEL(need, name) \
  if ((isa & (need)) == (need)) return &name;
#include "kernels/softmax/kernels.inc"
#undef PALM_KERNEL
  PALM_EVERY_SET_WAS_TRIED;
}

void log_softmax_sums(size_t n, float* sums) {
  for (size_t i = 0; i < n; ++i) sums[i] = std::log(sums[i]);
}

PALM_OPERANDS(softmax, "x", "y")
StepPtr make_softmax(const Node& node) { return std::make_unique<Softmax>(node); }

}  // namespace palm
