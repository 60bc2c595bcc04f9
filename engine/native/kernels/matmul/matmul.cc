// Matrix products: y[i] = activation(a[i] b[i] + bias) for each i of a batch. A constant b is
// packed once, another one in each run.
#include <algorithm>

#include "base/arena.h"
#include "kernels/activation.h"
#include "kernels/gemm/gemm.h"

namespace palm {
namespace {

enum Input { kA, kB, kBias, kSlope };

size_t dim(const Node& node, const char* name, int64_t least) {
  const int64_t value = node.attrs.integer(name);
  if (value < least) fail(Fault::kModel, "attribute %s: %lld", name, static_cast<long long>(value));
  return static_cast<size_t>(value);
}

class Matmul : public Step {
 public:
  explicit Matmul(const Node& node)
      : m_(dim(node, "m", 0)),
        k_(dim(node, "k", 1)),
        n_(dim(node, "n", 1)),
        kernel_(find_gemm(node.isa)),
        activation_(node, kSlope, n_) {
    const Tensor &a = node.in(kA), &b = node.in(kB), &y = node.out();
    const Ints batch = node.attrs.has("batch") ? node.attrs.integers("batch") : Ints{};
    for (int64_t size : batch) {
      if (size < 0) fail(Fault::kModel, "attribute batch is negative");
      batch_ = checked_product(batch_, static_cast<size_t>(size));
    }
    trans_b_ = node.attrs.integer("trans_b", 0) != 0;
    const size_t a_size = checked_product(m_, k_), b_size = checked_product(k_, n_);
    if (y.count != checked_product(checked_product(m_, n_), batch_)) {
      fail(Fault::kModel, "%zu x %zu x %zu into %s", m_, k_, n_, y.text().c_str());
    }
    a_starts_ = starts(node, "a_strides", batch, a_size, a.count);
    b_starts_ = starts(node, "b_strides", batch, b_size, b.count);
    if (const float* bias = node.input(kBias) ? node.constant(kBias, n_) : nullptr)
      bias_.assign(bias, bias + n_);
    packed_floats_ = kernel_.pack(k_, n_, nullptr, row_stride(), column_stride(), nullptr);
    packed_floats_ = round_up(packed_floats_ * sizeof(float)) / sizeof(float);
    panels_ = kernel_.count_panels(n_);
    if (!b.constant) return;
    constant_ = true;
    // Batches that share one b share its panels.
    for (int64_t start : b_starts_)
      if (std::find(packed_starts_.begin(), packed_starts_.end(), start) == packed_starts_.end())
        packed_starts_.push_back(start);
    packed_ = Arena(checked_product(packed_floats_, packed_starts_.size()) * sizeof(float));
    for (size_t i = 0; i < packed_starts_.size(); ++i) {
      pack(static_cast<const float*>(b.constant) + packed_starts_[i],
           packed_.floats() + i * packed_floats_);
    }
  }

  size_t scratch_bytes(int) const override {
    return constant_ ? 0 : checked_product(packed_floats_, sizeof(float));
  }

  void run(const Buffers& b) const override {
    for (size_t i = 0; i < a_starts_.size(); ++i) {
      const float* packed;
      if (constant_) {
        const auto found = std::find(packed_starts_.begin(), packed_starts_.end(), b_starts_[i]);
        packed =
            packed_.floats() + static_cast<size_t>(found - packed_starts_.begin()) * packed_floats_;
      } else {
        float* const scratch = reinterpret_cast<float*>(b.scratch);
        if (i == 0 || b_starts_[i] != b_starts_[i - 1]) pack(b.in(kB) + b_starts_[i], scratch);
        packed = scratch;
      }
      multiply(b, b.in(kA) + a_starts_[i], packed, b.out() + i * m_ * n_);
    }
  }

 private:
  size_t row_stride() const { return trans_b_ ? 1 : n_; }
  size_t column_stride() const { return trans_b_ ? k_ : 1; }

  void pack(const float* b, float* to) const {
    kernel_.pack(k_, n_, b, row_stride(), column_stride(), to);
  }

  void multiply(const Buffers& b, const float* a, const float* packed, float* y) const {
    const Epilogue e = activation_.epilogue(bias_.empty() ? nullptr : bias_.data());
    constexpr size_t kFewRows = 32, kTileRows = 16;
    const bool by_rows = m_ >= kFewRows;
    const size_t count = by_rows ? m_ : panels_;
    const size_t grain = by_rows ? grain_of(k_ * n_, kTileRows) : grain_of(m_ * k_ * n_ / panels_);
    b.pool->parallel(count, grain, [&](size_t begin, size_t end, int) {
      const size_t row = by_rows ? begin : 0, rows = by_rows ? end - begin : m_;
      const float* const from = a + row * k_;
      kernel_.run({rows, n_, k_, 1, &from, k_, packed, y + row * n_, n_, by_rows ? 0 : begin,
                   by_rows ? panels_ : end, e});
    });
  }

  // Where each matrix of the batch begins: a stride for each dim of `batch`; dense without.
  Ints starts(const Node& node, const char* name, const Ints& batch, size_t size,
              size_t count) const {
    Ints strides(batch.size(), static_cast<int64_t>(size));
    for (size_t i = batch.size(); i-- > 1;) strides[i - 1] = strides[i] * batch[i];
    strides = node.attrs.integers(name, strides);
    Ints shape = batch, all = strides;
    shape.push_back(static_cast<int64_t>(size));
    all.push_back(1);
    check_bounds(name, shape, all, 0, count);
    Ints values;
    for (size_t i = 0; m_ && i < batch_; ++i) {
      int64_t start = 0;
      size_t rest = i;
      for (size_t d = batch.size(); d-- > 0;) {
        start += static_cast<int64_t>(rest % static_cast<size_t>(batch[d])) * strides[d];
        rest /= static_cast<size_t>(batch[d]);
      }
      values.push_back(start);
    }
    return values;
  }

  size_t m_, k_, n_;
  GemmKernel kernel_;
  Activation activation_;
  size_t batch_ = 1;
  bool trans_b_ = false, constant_ = false;
  Ints a_starts_, b_starts_, packed_starts_;
  std::vector<float> bias_;
  size_t packed_floats_, panels_;
  Arena packed_;
};

}  // namespace

StepPtr make_matmul(const Node& node) { return std::make_unique<Matmul>(node); }

}  // namespace palm
