#include "kernels/reduce/reduce.h"

#include <algorithm>
#include <cmath>

#include "base/step.h"

namespace palm {
namespace {

struct NamedOp {
  const char* name;
  ReduceOp op;
};

constexpr NamedOp kOps[] = {{"sum", ReduceOp::kSum},   {"mean", ReduceOp::kMean},
                            {"max", ReduceOp::kMax},   {"min", ReduceOp::kMin},
                            {"prod", ReduceOp::kProd}, {"l2", ReduceOp::kL2}};

ReduceOp op_by_name(const std::string& name) {
  for (const NamedOp& row : kOps)
    if (name == row.name) return row.op;
  fail(Fault::kUnsupported, "no op %.40s", name.c_str());
}

class Reduce : public Step {
 public:
  explicit Reduce(const Node& node)
      : columns_(find_reduce(node.isa)), op_(op_by_name(node.attrs.text("op"))) {
    const Tensor &x = node.in(0), &y = node.out();
    out_shape_ = node.attrs.integers("out_shape");
    out_strides_ = node.attrs.integers("out_strides");
    red_shape_ = node.attrs.integers("red_shape");
    red_strides_ = node.attrs.integers("red_strides");
    Ints shape = out_shape_, strides = out_strides_;
    if (strides.size() != shape.size()) fail(Fault::kModel, "out_strides do not fit out_shape");
    shape.insert(shape.end(), red_shape_.begin(), red_shape_.end());
    strides.insert(strides.end(), red_strides_.begin(), red_strides_.end());
    check_bounds("input 0", shape, strides, 0, x.count);
    const size_t count = checked_product(out_shape_);
    rows_ = checked_product(red_shape_);
    if (count != y.count) fail(Fault::kModel, "out_shape: %zu elements of %zu", count, y.count);
    if (count && rows_ == 0) fail(Fault::kUnsupported, "nothing to reduce");
    if (count && rows_ > x.count / count)
      fail(Fault::kModel, "%zu times %zu elements of %s", count, rows_, x.text().c_str());
    // Columns: the innermost dim of y if it is innermost in x as well, and the rest one stride.
    if (!out_shape_.empty() && out_strides_.back() == 1)
      n_ = static_cast<size_t>(out_shape_.back());
    outer_ = n_ ? count / n_ : 0;
    if (n_ > 1) {
      out_shape_.pop_back();
      out_strides_.pop_back();
    }
    even_ = rows_ == 1;
    if (!red_shape_.empty()) {
      stride_ = red_strides_.back();
      even_ = stride_ >= 0;
      for (size_t i = red_shape_.size(); i-- > 1;)
        even_ &= red_strides_[i - 1] == red_strides_[i] * red_shape_[i];
    }
    // A few long reductions go by parts, always the same ones: each thread reads what it wrote.
    constexpr size_t kPartRows = 32;
    if (even_ && outer_ && outer_ < 8 && rows_ >= 4 * kPartRows && op_ != ReduceOp::kL2)
      parts_ = std::min(kMostParts, rows_ / kPartRows);
  }

  // The rows of an uneven reduction, one after another; or the results of the parts.
  size_t scratch_bytes(int threads) const override {
    if (parts_) return checked_product(checked_product(outer_, parts_), n_ * sizeof(float));
    return even_ ? 0 : checked_product(static_cast<size_t>(threads), scratch_floats() * 4);
  }

  void run(const Buffers& b) const override {
    if (parts_) return run_parts(b);
    if (outer_ == 1 && even_) {
      constexpr size_t kColumns = 64;
      return b.pool->parallel(n_, grain_of(rows_ * kWorkOfTouching, kColumns),
                              [&](size_t begin, size_t end, int) {
                                columns_(op_, rows_, end - begin, b.in(0) + begin,
                                         static_cast<size_t>(stride_), b.out() + begin);
                              });
    }
    b.pool->parallel(outer_, grain_of(rows_ * n_ * kWorkOfTouching),
                     [&](size_t begin, size_t end, int thread) {
                       for (size_t i = begin; i < end; ++i) {
                         const float* const x = b.in(0) + offset_of(i, out_shape_, out_strides_);
                         float* const y = b.out() + i * n_;
                         if (even_) {
                           columns_(op_, rows_, n_, x, static_cast<size_t>(stride_), y);
                           continue;
                         }
                         float* const copy = reinterpret_cast<float*>(b.scratch) +
                                             static_cast<size_t>(thread) * scratch_floats();
                         for (size_t r = 0; r < rows_; ++r) {
                           const float* const from = x + offset_of(r, red_shape_, red_strides_);
                           for (size_t j = 0; j < n_; ++j) copy[r * n_ + j] = from[j];
                         }
                         columns_(op_, rows_, n_, copy, n_, y);
                       }
                     });
  }

 private:
  static constexpr size_t kMostParts = 16;

  void run_parts(const Buffers& b) const {
    const ReduceOp op = op_ == ReduceOp::kMean ? ReduceOp::kSum : op_;
    const size_t stride = static_cast<size_t>(stride_);
    float* const results = reinterpret_cast<float*>(b.scratch);
    b.pool->parallel(outer_ * parts_, grain_of(rows_ / parts_ * n_ * kWorkOfTouching),
                     [&](size_t begin, size_t end, int) {
                       for (size_t i = begin; i < end; ++i) {
                         const size_t part = i % parts_, first = rows_ * part / parts_;
                         const size_t rows = rows_ * (part + 1) / parts_ - first;
                         const float* const x =
                             b.in(0) + offset_of(i / parts_, out_shape_, out_strides_);
                         columns_(op, rows, n_, x + first * stride, stride, results + i * n_);
                       }
                     });
    for (size_t i = 0; i < outer_; ++i) {
      float* const y = b.out() + i * n_;
      columns_(op, parts_, n_, results + i * parts_ * n_, n_, y);
      if (op == op_) continue;
      for (size_t j = 0; j < n_; ++j) y[j] /= static_cast<float>(rows_);
    }
  }

  size_t scratch_floats() const { return checked_product(rows_, n_); }

  ReduceFn columns_;
  ReduceOp op_;
  Ints out_shape_, out_strides_, red_shape_, red_strides_;
  size_t rows_ = 1, n_ = 1, outer_ = 0, parts_ = 0;
  int64_t stride_ = 0;
  bool even_ = true;
};

}  // namespace

ReduceFn find_reduce(uint32_t isa) {
#define PALM_KERNEL(need, name) \
  if ((isa & (need)) == (need)) return &name;
#include "kernels/reduce/kernels.inc"
#undef PALM_KERNEL
  PALM_EVERY_SET_WAS_TRIED;
}

PALM_OPERANDS(reduce, "x", "y")
StepPtr make_reduce(const Node& node) { return std::make_unique<Reduce>(node); }

}  // namespace palm
