// Sums and products of bytes, broadcast by strides: op "add" or "mul".
#include "kernels/binary_int8/binary_int8.h"

#include <algorithm>

#include "kernels/byte_attrs.h"

namespace palm {
namespace {

constexpr Operands kOperands{"a b", "y"};
constexpr size_t kA = kOperands.input("a"), kB = kOperands.input("b");

class Step8 : public Step {
 public:
  explicit Step8(const Node& node) : run_(find_binary_int8(node.isa)) {
    const Tensor &a = node.in(kA, DType::kUint8), &b = node.in(kB, DType::kUint8);
    const Tensor& y = node.out(0, DType::kUint8);
    const std::string op = node.attrs.text("op");
    if (op != "add" && op != "mul") fail(Fault::kUnsupported, "no op %.40s", op.c_str());
    op_.mul = op == "mul";
    op_.a_scale = scale_attr(node, "a_scale");
    op_.b_scale = op_.mul ? 0.f : scale_attr(node, "b_scale");
    op_.a_zero = byte_attr(node, "a_zero", 0);
    op_.b_zero = byte_attr(node, "b_zero", 0);
    op_.to = to_byte(node);
    shape_ = node.attrs.integers("shape");
    a_ = node.attrs.integers("a_strides");
    b_ = node.attrs.integers("b_strides");
    check_bounds("input 0", shape_, a_, 0, a.count);
    check_bounds("input 1", shape_, b_, 0, b.count);
    const size_t count = checked_product(shape_);
    if (count != y.count) fail(Fault::kModel, "shape holds %zu elements of %zu", count, y.count);
    if (count == 0) return;
    same_[0] = is_dense(shape_, a_);
    same_[1] = is_dense(shape_, b_);
    if (shape_.empty()) {
      shape_.push_back(1);
      a_.push_back(1);
      b_.push_back(1);
    }
    columns_ = static_cast<size_t>(shape_.back());
    rows_ = count / columns_;
    // Narrow rows that all meet the same row of b: many at once, with b repeated.
    repeats_ = same_[0] && rows_ > 1 && shape_.size() == 2 && b_[0] == 0 && b_[1] == 1 &&
               columns_ * 2 <= kRepeated;
    a_step_ = static_cast<ptrdiff_t>(a_.back());
    b_step_ = static_cast<ptrdiff_t>(b_.back());
    for (Ints* list : {&shape_, &a_, &b_}) list->pop_back();
  }

  bool in_place(size_t i) const override { return i < 2 && same_[i]; }

  void run(const Buffers& buffers) const override {
    const auto* const a = static_cast<const uint8_t*>(buffers.inputs[kA]);
    const auto* const b = static_cast<const uint8_t*>(buffers.inputs[kB]);
    auto* const y = static_cast<uint8_t*>(buffers.outputs[0]);
    // Threads share the rows, or the columns of a single one.
    if (rows_ == 1) {
      buffers.pool->parallel(columns_, grain_of(kWork, 64), [&](size_t begin, size_t end, int) {
        const auto at = static_cast<ptrdiff_t>(begin);
        row(end - begin, a + at * a_step_, b + at * b_step_, y + begin);
      });
      return;
    }
    buffers.pool->parallel(rows_, grain_of(columns_ * kWork), [&](size_t begin, size_t end, int) {
      if (repeats_) return repeated(begin, end, a, b, y);
      for (size_t i = begin; i < end; ++i)
        row(columns_, a + offset_of(i, shape_, a_), b + offset_of(i, shape_, b_), y + i * columns_);
    });
  }

 private:
  static constexpr size_t kWork = 4, kRepeated = 1024;

  // n elements of a row; those of an operand that do not lie side by side are brought there.
  void row(size_t n, const uint8_t* a, const uint8_t* b, uint8_t* y) const {
    if (a_step_ == 1 && b_step_ == 1) return run_(op_, n, a, b, y);
    uint8_t room[2][kRepeated];
    const auto beside = [](const uint8_t* x, ptrdiff_t step, size_t count, uint8_t* to) {
      if (step == 1) return x;
      for (size_t i = 0; i < count; ++i) to[i] = x[static_cast<ptrdiff_t>(i) * step];
      return static_cast<const uint8_t*>(to);
    };
    for (size_t i = 0; i < n; i += kRepeated) {
      const size_t count = std::min(n - i, kRepeated);
      const auto at = static_cast<ptrdiff_t>(i);
      run_(op_, count, beside(a + at * a_step_, a_step_, count, room[0]),
           beside(b + at * b_step_, b_step_, count, room[1]), y + i);
    }
  }

  // Rows that all meet the same row of b.
  void repeated(size_t begin, size_t end, const uint8_t* a, const uint8_t* b, uint8_t* y) const {
    uint8_t many[kRepeated];
    const size_t most = std::min(kRepeated / columns_, end - begin);
    for (size_t i = 0; i < most; ++i) std::copy_n(b, columns_, many + i * columns_);
    while (begin < end) {
      const size_t rows = std::min(most, end - begin), at = begin * columns_;
      run_(op_, rows * columns_, a + at, many, y + at);
      begin += rows;
    }
  }

  BinaryInt8Fn run_;
  BinaryInt8 op_{};
  Ints shape_, a_, b_;  // of the rows
  size_t rows_ = 0, columns_ = 0;
  ptrdiff_t a_step_ = 0, b_step_ = 0;
  bool same_[2] = {true, true}, repeats_ = false;
};

}  // namespace

BinaryInt8Fn find_binary_int8(uint32_t isa) {
#define PALM_KERNEL(need, name) \
  if ((isa & (need)) == (need)) return &name;
#include "kernels/binary_int8/kernels.inc"
#undef PALM_KERNEL
  PALM_EVERY_SET_WAS_TRIED;
}

PALM_OPERANDS(binary_int8, kOperands)
StepPtr make_binary_int8(const Node& node) { return std::make_unique<Step8>(node); }

}  // namespace palm
