// Layer, instance, group and root mean square normalization: x is [items, rows, groups, n], each
// group of an item has its own mean and variance over rows and n. Scale and bias are constants of
// groups * n, or left out.
#include "kernels/normalize/normalize.h"

#include <algorithm>

#include "base/arena.h"
#include "base/step.h"

namespace palm {
namespace {

constexpr Operands kOperands{"x scale bias", "y"};
constexpr size_t kX = kOperands.input("x"), kScale = kOperands.input("scale"),
                 kBias = kOperands.input("bias");

class NormalizeStep : public Step {
 public:
  explicit NormalizeStep(const Node& node)
      : run_(find_normalize(node.isa)),
        items_(node.attrs.size("items")),
        rows_(node.attrs.size("rows", 1)),
        groups_(node.attrs.size("groups", 1)),
        n_(node.attrs.size("n", 1)),
        epsilon_(node.attrs.number("epsilon")),
        centre_(node.attrs.integer("centre", 1) != 0) {
    const Tensor &x = node.in(kX), &y = node.out();
    const size_t width = checked_product(groups_, n_);
    const size_t count = checked_product(checked_product(items_, rows_), width);
    if (x.count != count || y.count != count)
      fail(Fault::kModel, "%s into %s", x.text().c_str(), y.text().c_str());
    const auto copy = [&](size_t i, std::vector<float>& to) {
      if (const float* p = node.constant(i, width)) to.assign(p, p + width);
    };
    copy(kScale, scale_);
    copy(kBias, bias_);
  }

  bool reads(size_t i) const override { return i == kX; }

  size_t scratch_bytes(int threads) const override {
    return rows_ == 1 ? 0 : checked_product(static_cast<size_t>(threads), columns_bytes());
  }

  void run(const Buffers& b) const override {
    const size_t size = rows_ * groups_ * n_, per_part = groups_per_part();
    const size_t parts = (groups_ + per_part - 1) / per_part;
    const Grain grain = grain_of(rows_ * per_part * n_ * kWorkOfTouching * 2);
    b.pool->parallel(items_ * parts, grain, [&](size_t begin, size_t end, int thread) {
      char* const scratch = b.scratch + static_cast<size_t>(thread) * columns_bytes();
      for (size_t i = begin; i < end; ++i) {
        const size_t first = i % parts * per_part, column = first * n_;
        const size_t at = i / parts * size + column;
        run_({rows_, std::min(per_part, groups_ - first), n_, groups_ * n_, b.in(kX) + at,
              scale_.empty() ? nullptr : scale_.data() + column,
              bias_.empty() ? nullptr : bias_.data() + column, epsilon_, centre_, b.out() + at,
              reinterpret_cast<float*>(scratch)});
      }
    });
  }

  bool in_place(size_t i) const override { return i == kX; }

 private:
  // Parts of an item are whole groups, of at least a cache line; a row is one part.
  size_t groups_per_part() const {
    constexpr size_t kColumns = 16;
    return rows_ == 1 ? groups_ : std::min(groups_, (kColumns + n_ - 1) / n_);
  }
  size_t columns_bytes() const { return round_up(2 * groups_per_part() * n_ * sizeof(float)); }

  NormalizeFn run_;
  size_t items_, rows_, groups_, n_;
  float epsilon_;
  bool centre_;
  std::vector<float> scale_, bias_;
};

}  // namespace

NormalizeFn find_normalize(uint32_t isa) {
#define PALM_KERNEL(need, name) \
  if ((isa & (need)) == (need)) return &name;
#include "kernels/normalize/kernels.inc"
#undef PALM_KERNEL
  PALM_EVERY_SET_WAS_TRIED;
}

PALM_OPERANDS(normalize, kOperands)
StepPtr make_normalize(const Node& node) { return std::make_unique<NormalizeStep>(node); }

}  // namespace palm
