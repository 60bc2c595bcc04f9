#include "kernels/unary/unary.h"

#include <cmath>

namespace palm {
namespace {

struct Row {
  const char* name;
  UnaryOp op;
  bool is_there;
  float alpha, beta;
};

constexpr Row kRows[] = {
#define PALM_UNARY(name, op, where, alpha, beta) {#name, UnaryOp::op, needs(UnaryOp::op), alpha, beta},
#include "kernels/unary/ops.inc"
#undef PALM_UNARY
    {"relu", UnaryOp::kClip, needs(UnaryOp::kClip), 0, INFINITY},
};

const Row& find_row(const std::string& name) {
  for (const Row& row : kRows)
    if (row.is_there && name == row.name) return row;
  fail(Fault::kUnsupported, "no function %.40s", name.c_str());
}

template <class Function>
void map(size_t rows, size_t n, const float* x, size_t x_stride, float* y, size_t y_stride,
         Function f) {
  for (size_t i = 0; i < rows; ++i)
    for (size_t j = 0; j < n; ++j) y[i * y_stride + j] = f(x[i * x_stride + j]);
}

class Unary : public Step {
 public:
  explicit Unary(const Node& node) : run_(find_unary(node.isa)), count_(node.in(0).count) {
    const Row& row = find_row(node.attrs.text("op"));
    op_ = row.op;
    alpha_ = node.attrs.number(op_ == UnaryOp::kClip ? "min" : "alpha", row.alpha);
    const char* const beta = op_ == UnaryOp::kSelu ? "gamma" : "beta";
    beta_ = node.attrs.number(op_ == UnaryOp::kClip ? "max" : beta, row.beta);
    if (node.out().count != count_) {
      fail(Fault::kModel, "%s into %s", node.in(0).text().c_str(), node.out().text().c_str());
    }
  }

  void run(const Buffers& b) const override {
    const float* const x = b.in(0);
    float* const y = b.out();
    b.pool->parallel(count_, grain_of(kWorkOfTouching * 2, 64), [&](size_t begin, size_t end, int) {
      run_(op_, alpha_, beta_, 1, end - begin, x + begin, 0, y + begin, 0);
    });
  }

  bool in_place(size_t) const override { return true; }

 private:
  UnaryFn run_;
  UnaryOp op_;
  float alpha_, beta_;
  size_t count_;
};

}  // namespace

UnaryOp unary_by_name(const std::string& name) { return find_row(name).op; }

std::vector<const char*> unary_names() {
  std::vector<const char*> names;
  for (const Row& row : kRows)
    if (row.is_there) names.push_back(row.name);
  return names;
}

UnaryDefaults unary_defaults(UnaryOp op) {
  for (const Row& row : kRows)
    if (row.op == op) return {row.alpha, row.beta};
  return {0, 0};
}

UnaryFn find_unary(uint32_t isa) {
#define PALM_KERNEL(need, name) \
  if ((isa & (need)) == (need)) return &name;
#include "kernels/unary/kernels.inc"
#undef PALM_KERNEL
  PALM_EVERY_SET_WAS_TRIED;
}

void unary_f32_library(UnaryOp op, float alpha, float beta, size_t rows, size_t n, const float* x,
                       size_t x_stride, float* y, size_t y_stride) {
  const auto all = [&](auto f) { map(rows, n, x, x_stride, y, y_stride, f); };
  const auto each = [&](float (*f)(float)) { all(f); };
  constexpr auto softplus = [](float v) {
    return (v < 0.f ? 0.f : v) + std::log1p(std::exp(-std::fabs(v)));
  };
// Where this library has a function.
#define PALM_FUNCTION(op, ...)                     \
  case UnaryOp::op:                                \
    if constexpr (needs(UnaryOp::op)) __VA_ARGS__; \
    return;
  switch (op) {
    PALM_FUNCTION(kAcos, each([](float v) { return std::acos(v); }))
    // musl's is finite below -1.
    PALM_FUNCTION(kAcosh, each([](float v) { return v < 1.f ? NAN : std::acosh(v); }))
    PALM_FUNCTION(kAsin, each([](float v) { return std::asin(v); }))
    PALM_FUNCTION(kAsinh, each([](float v) { return std::asinh(v); }))
    PALM_FUNCTION(kAtan, each([](float v) { return std::atan(v); }))
    PALM_FUNCTION(kAtanh, each([](float v) { return std::atanh(v); }))
    PALM_FUNCTION(kCelu, all([=](float v) { return v < 0.f ? alpha * std::expm1(v / alpha) : v; }))
    PALM_FUNCTION(kCos, each([](float v) { return std::cos(v); }))
    PALM_FUNCTION(kCosh, each([](float v) { return std::cosh(v); }))
    PALM_FUNCTION(kLog, each([](float v) { return std::log(v); }))
    PALM_FUNCTION(kSelu, all([=](float v) { return beta * (v < 0.f ? alpha * std::expm1(v) : v); }))
    PALM_FUNCTION(kSign, each([](float v) {
      return v > 0.f ? 1.f : v < 0.f ? -1.f : v != v ? v : 0.f;
    }))
    PALM_FUNCTION(kSin, each([](float v) { return std::sin(v); }))
    PALM_FUNCTION(kSinh, each([](float v) { return std::sinh(v); }))
    PALM_FUNCTION(kSoftplus, all(softplus))
    PALM_FUNCTION(kSoftsign, each([](float v) { return v / (1.f + std::fabs(v)); }))
    PALM_FUNCTION(kTan, each([](float v) { return std::tan(v); }))
    PALM_FUNCTION(kThresholdedRelu, all([=](float v) { return v > alpha ? v : 0.f; }))
#undef PALM_FUNCTION
// Those in simd.cc; without a default the compiler says which function has no case.
#define PALM_UNARY(name, op, where, alpha, beta) PALM_CASE_##where(op)
#define PALM_CASE_library(op)
#define PALM_CASE_vectors(op) case UnaryOp::op:
#include "kernels/unary/ops.inc"
#undef PALM_CASE_vectors
#undef PALM_CASE_library
#undef PALM_UNARY
    return;
  }
}

PALM_OPERANDS(unary, "x", "y")
StepPtr make_unary(const Node& node) { return std::make_unique<Unary>(node); }

}  // namespace palm
