// Matrix products: y[i] = activation(a[i] b[i] + bias) for each i of a batch. A constant b is
// packed once, another one in each run.
#include <map>

#include "base/arena.h"
#include "kernels/activation.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemv_f16/gemv_f16.h"

namespace palm {
namespace {

constexpr Operands kOperands{"a b bias", "y"};
constexpr size_t kA = kOperands.input("a"), kB = kOperands.input("b"),
                 kBias = kOperands.input("bias");
// An input that no step has: no product takes a PReLU.
constexpr size_t kNoSlope = SIZE_MAX;

class Matmul : public Step {
 public:
  explicit Matmul(const Node& node)
      : m_(node.attrs.size("m")),
        k_(node.attrs.size("k", 1)),
        n_(node.attrs.size("n", 1)),
        kernel_(find_gemm(node.isa)),
        activation_(node, kNoSlope, n_) {
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
    if (b.constant && m_ == 1 && batch_ == 1 && (gemv_ = find_gemv_f16(node.isa))) {
      halves_ = pack_gemv_f16(k_, n_, static_cast<const float*>(b.constant) + b_starts_[0],
                              row_stride(), column_stride());
      if ((constant_ = halves_.data())) return;
    }
    packed_floats_ = kernel_.pack(k_, n_, nullptr, row_stride(), column_stride(), nullptr);
    packed_floats_ = round_up(packed_floats_ * sizeof(float)) / sizeof(float);
    panels_ = kernel_.count_panels(n_);
    if (!b.constant) return;
    constant_ = true;
    // Batches that share one b share its panels.
    std::map<int64_t, size_t> places;
    for (int64_t start : b_starts_)
      packed_at_.push_back(places.emplace(start, places.size() * packed_floats_).first->second);
    packed_ = Arena(checked_product(packed_floats_, places.size() * sizeof(float)));
    for (const auto& [start, place] : places)
      pack(static_cast<const float*>(b.constant) + start, packed_.floats() + place);
  }

  bool reads(size_t i) const override { return i == kA || (i == kB && !constant_); }

  // Panels of a b that is not constant, for each thread.
  size_t scratch_bytes(int threads) const override {
    return constant_ ? 0
                     : checked_product(checked_product(packed_floats_, sizeof(float)),
                                       static_cast<size_t>(threads));
  }

  void run(const Buffers& b) const override {
    if (halves_.data()) {
      return run_gemv_f16(gemv_,
                          {n_, k_, b.in(kA) + a_starts_[0],
                           reinterpret_cast<const uint16_t*>(halves_.data()), b.out(),
                           activation_.epilogue(bias_.empty() ? nullptr : bias_.data())},
                          *b.pool);
    }
    const size_t batches = a_starts_.size();
    const bool share_batches = batches >= static_cast<size_t>(b.pool->threads());
    const auto multiply = [&](size_t begin, size_t end, int thread) {
      float* const scratch =
          reinterpret_cast<float*>(b.scratch) + static_cast<size_t>(thread) * packed_floats_;
      for (size_t i = begin; i < end; ++i) {
        if (!constant_ && (i == begin || b_starts_[i] != b_starts_[i - 1]))
          pack(b.in(kB) + b_starts_[i], scratch);
        const float* const a = b.in(kA) + a_starts_[i];
        const Gemm gemm{m_,
                        n_,
                        k_,
                        1,
                        &a,
                        k_,
                        constant_ ? packed_.floats() + packed_at_[i] : scratch,
                        b.out() + i * m_ * n_,
                        n_,
                        0,
                        panels_,
                        activation_.epilogue(bias_.empty() ? nullptr : bias_.data())};
        if (share_batches) kernel_.run(gemm);
        else run_gemm(kernel_, gemm, *b.pool);
      }
    };
    if (share_batches) b.pool->parallel(batches, grain_of((m_ + 1) * k_ * n_), multiply);
    else multiply(0, batches, 0);
  }

 private:
  size_t row_stride() const { return trans_b_ ? 1 : n_; }
  size_t column_stride() const { return trans_b_ ? k_ : 1; }

  void pack(const float* b, float* to) const {
    kernel_.pack(k_, n_, b, row_stride(), column_stride(), to);
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
  Ints a_starts_, b_starts_;
  std::vector<size_t> packed_at_;  // of each batch's b
  std::vector<float> bias_;
  size_t packed_floats_ = 0, panels_ = 0;
  Arena packed_, halves_;  // one of them, as they are of float16 or not
  GemvF16Fn gemv_ = nullptr;
};

}  // namespace

PALM_OPERANDS(matmul, kOperands)
StepPtr make_matmul(const Node& node) { return std::make_unique<Matmul>(node); }

}  // namespace palm
