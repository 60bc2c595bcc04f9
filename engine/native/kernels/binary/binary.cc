#include "kernels/binary/binary.h"

#include <algorithm>
#include <cmath>

#include "base/needs.h"
#include "kernels/activation.h"

namespace palm {
namespace {

constexpr Operands kOperands{"a b addend", "y"};
constexpr size_t kA = kOperands.input("a"), kB = kOperands.input("b"),
                 kAddend = kOperands.input("addend");

struct NamedOp {
  const char* name;
  BinaryOp op;
};

constexpr NamedOp kOps[] = {{"add", BinaryOp::kAdd}, {"sub", BinaryOp::kSub},
                            {"mul", BinaryOp::kMul}, {"div", BinaryOp::kDiv},
                            {"max", BinaryOp::kMax}, {"min", BinaryOp::kMin},
                            {"pow", BinaryOp::kPow}, {"mul_add", BinaryOp::kMulAdd}};

// It takes the C library's.
constexpr bool kNeedsPow = needs_function("pow");

BinaryOp op_by_name(const std::string& name) {
  for (const NamedOp& row : kOps)
    if (name == row.name && (kNeedsPow || row.op != BinaryOp::kPow)) return row.op;
  fail(Fault::kUnsupported, "no op %.40s", name.c_str());
}

// Dims of y with the strides of a and b; dims of 1 left out, and neighbours that both run on
// joined.
struct Dims {
  Ints shape, a, b;

  void add(int64_t size, int64_t a_stride, int64_t b_stride) {
    if (size == 1) return;
    if (!shape.empty() && a.back() == a_stride * size && b.back() == b_stride * size) {
      shape.back() *= size;
      a.back() = a_stride;
      b.back() = b_stride;
      return;
    }
    shape.push_back(size);
    a.push_back(a_stride);
    b.push_back(b_stride);
  }
};

class BinaryStep : public Step {
 public:
  BinaryStep(const Node& node, BinaryOp op, const char* a_name, const char* b_name)
      : run_(find_binary(node.isa)), op_(op), clip_(node.attrs) {
    const Tensor &a = node.in(kA), &b = node.in(kB), &y = node.out();
    const Ints shape = node.attrs.integers("shape");
    const Ints a_strides = node.attrs.integers(a_name, dense_strides(shape));
    const Ints b_strides = node.attrs.integers(b_name, dense_strides(shape));
    check_bounds("input 0", shape, a_strides, 0, a.count);
    check_bounds("input 1", shape, b_strides, 0, b.count);
    const size_t count = checked_product(shape);
    if (count != y.count) fail(Fault::kModel, "shape holds %zu elements of %zu", count, y.count);
    if (op == BinaryOp::kMulAdd && node.in(kAddend).count != count)
      fail(Fault::kModel, "%s added to %s", node.in(kAddend).text().c_str(), y.text().c_str());
    a_same_ = b_same_ = count == 0;
    if (count == 0) return;
    for (size_t i = 0; i < shape.size(); ++i) dims_.add(shape[i], a_strides[i], b_strides[i]);
    a_same_ = is_dense(dims_.shape, dims_.a);
    b_same_ = is_dense(dims_.shape, dims_.b);
    // The two innermost dims are the kernel's rows and columns.
    while (dims_.shape.size() < 2) {
      dims_.shape.insert(dims_.shape.begin(), 1);
      dims_.a.insert(dims_.a.begin(), 0);
      dims_.b.insert(dims_.b.begin(), 0);
    }
    const auto odd = [](int64_t stride) { return stride != 0 && stride != 1; };
    // Single values where the kernel has no such step.
    if (odd(dims_.a.back()) || odd(dims_.b.back())) {
      dims_.shape.push_back(1);
      dims_.a.push_back(0);
      dims_.b.push_back(0);
    }
    columns_ = static_cast<size_t>(dims_.shape.back());
    rows_ = count / columns_;
    split_wide_row();
    join_narrow_rows();
  }

  void run(const Buffers& b) const override {
    if (rows_ == 0) return;
    const size_t inner = static_cast<size_t>(dims_.shape[dims_.shape.size() - 2]);
    const Grain grain = grain_of(columns_ * kWorkOfTouching);
    b.pool->parallel(rows_, grain, [&](size_t begin, size_t end, int thread) {
      if (joined_) {
        float* const scratch =
            reinterpret_cast<float*>(b.scratch) + static_cast<size_t>(thread) * kJoinedFloats;
        return joined_rows(b, begin, end, scratch);
      }
      for (size_t row = begin; row < end;) {
        const size_t n = std::min(end - row, inner - row % inner);
        rows(b, row, n);
        row += n;
      }
    });
  }

  size_t scratch_bytes(int threads) const override {
    return joined_ ? static_cast<size_t>(threads) * kJoinedFloats * sizeof(float) : 0;
  }

  bool in_place(size_t i) const override { return i == kA ? a_same_ : i == kB ? b_same_ : true; }

 private:
  static constexpr size_t kJoinedFloats = 256;

  // Narrow rows that all meet the same row of b, a vector of channels, become wide ones with b
  // repeated.
  void join_narrow_rows() {
    joined_ = columns_ > 1 && columns_ * 4 <= kJoinedFloats && rows_ > 1 && a_same_ &&
              dims_.shape.size() == 2 && dims_.b[0] == 0 && dims_.b[1] == 1 &&
              op_ != BinaryOp::kPow;
  }

  void joined_rows(const Buffers& b, size_t begin, size_t end, float* scratch) const {
    const size_t most = std::min(kJoinedFloats / columns_, end - begin);
    for (size_t i = 0; i < most; ++i) std::copy_n(b.in(kB), columns_, scratch + i * columns_);
    while (begin < end) {
      const size_t count = std::min(most, end - begin), at = begin * columns_;
      const size_t wide = (end - begin) / count, n = count * columns_;
      run_({op_, wide, n, b.in(kA) + at, static_cast<ptrdiff_t>(n), 1, scratch, 0, 1, b.out() + at,
            clip_.low, clip_.high, op_ == BinaryOp::kMulAdd ? b.in(kAddend) + at : nullptr});
      begin += wide * count;
    }
  }

  // One long row becomes many, so that threads can share it.
  void split_wide_row() {
    if (rows_ != 1 || columns_ < grain_of(kWorkOfTouching).least * 2) return;
    size_t parts = 2;
    while (parts < 64 && columns_ % (parts * 2) == 0) parts *= 2;
    if (columns_ % parts) return;
    const int64_t n = static_cast<int64_t>(columns_ / parts);
    dims_.shape[dims_.shape.size() - 2] = static_cast<int64_t>(parts);
    dims_.a[dims_.a.size() - 2] = dims_.a.back() * n;
    dims_.b[dims_.b.size() - 2] = dims_.b.back() * n;
    dims_.shape.back() = n;
    columns_ = static_cast<size_t>(n);
    rows_ = parts;
  }

  // `n` rows from `row` on, all within one innermost pair of dims.
  void rows(const Buffers& b, size_t row, size_t n) const {
    const size_t outer = dims_.shape.size() - 1;
    int64_t a = 0, c = 0;
    size_t rest = row;
    for (size_t i = outer; i-- > 0;) {
      const size_t size = static_cast<size_t>(dims_.shape[i]);
      a += static_cast<int64_t>(rest % size) * dims_.a[i];
      c += static_cast<int64_t>(rest % size) * dims_.b[i];
      rest /= size;
    }
    const auto step = [](int64_t stride) { return static_cast<ptrdiff_t>(stride); };
    run_({op_, n, columns_, b.in(kA) + a, step(dims_.a[outer - 1]), step(dims_.a[outer]),
          b.in(kB) + c, step(dims_.b[outer - 1]), step(dims_.b[outer]), b.out() + row * columns_, clip_.low, clip_.high,
          op_ == BinaryOp::kMulAdd ? b.in(kAddend) + row * columns_ : nullptr});
  }

  BinaryFn run_;
  BinaryOp op_;
  Clip clip_;
  Dims dims_;
  size_t rows_ = 0, columns_ = 0;
  bool a_same_ = false, b_same_ = false, joined_ = false;
};

}  // namespace

Clip::Clip(const Attrs& attrs) {
  const std::string activation = attrs.text("activation", "");
  const Floats params = attrs.numbers("activation_params", {});
  if (activation == "clip" && params.size() == 2) {
    low = static_cast<float>(params[0]);
    high = static_cast<float>(params[1]);
  } else if (!activation.empty()) {
    fail(Fault::kUnsupported, "activation %.40s of %zu params", activation.c_str(), params.size());
  }
}

BinaryFn find_binary(uint32_t isa) {
#define PALM_KERNEL(need, name) \
  if ((isa & (need)) == (need)) return &name;
#include "kernels/binary/kernels.inc"
#undef PALM_KERNEL
  PALM_EVERY_SET_WAS_TRIED;
}

void binary_f32_library([[maybe_unused]] const Binary& m) {
  if constexpr (!kNeedsPow) return;
  for (size_t i = 0; i < m.rows; ++i) {
    const ptrdiff_t at = static_cast<ptrdiff_t>(i);
    for (size_t j = 0; j < m.n; ++j) {
      const ptrdiff_t step = static_cast<ptrdiff_t>(j);
      const float v =
          std::pow(m.a[at * m.a_row + step * m.a_step], m.b[at * m.b_row + step * m.b_step]);
      const float raised = m.low > v ? m.low : v;
      m.y[i * m.n + j] = m.high < raised ? m.high : raised;
    }
  }
}

StepPtr make_strided_binary(const Node& node, BinaryOp op, const char* a_strides,
                            const char* b_strides) {
  return std::make_unique<BinaryStep>(node, op, a_strides, b_strides);
}

PALM_OPERANDS(binary, kOperands)
StepPtr make_binary(const Node& node) {
  return make_strided_binary(node, op_by_name(node.attrs.text("op")), "a_strides", "b_strides");
}

}  // namespace palm
