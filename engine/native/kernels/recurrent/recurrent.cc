// LSTM, GRU and RNN as ONNX has them, over x[steps, batch, inputs]: first all products with w, then
// step by step those with r. The gates of kUnits units lie side by side, so that one thread has all
// that these units need.
#include "kernels/recurrent/recurrent.h"

#include <algorithm>
#include <cmath>

#include "base/arena.h"
#include "base/step.h"
#include "kernels/gemm/gemm.h"

namespace palm {
namespace {

constexpr Operands kOperands{"x w r b initial_h initial_c p", "y y_h y_c"};
constexpr size_t kX = kOperands.input("x"), kW = kOperands.input("w"), kR = kOperands.input("r"),
                 kBias = kOperands.input("b"), kH = kOperands.input("initial_h"),
                 kC = kOperands.input("initial_c"), kPeepholes = kOperands.input("p");
constexpr size_t kY = kOperands.output("y"), kLastH = kOperands.output("y_h"),
                 kLastC = kOperands.output("y_c");

constexpr size_t kUnits = 32, kRows = 32;
constexpr size_t kStepsBetweenLooks = 64;
// A product with one row waits for its weights: so many multiply-adds would take as long.
constexpr size_t kWorkOfWeight = 12;

RecurrentOp op_of(const Node& node) {
  const std::string name = node.attrs.text("op");
  if (name == "lstm") return RecurrentOp::kLstm;
  if (name == "gru") {
    return node.attrs.integer("linear_before_reset", 0) ? RecurrentOp::kGruLinear
                                                        : RecurrentOp::kGruReset;
  }
  if (name == "tanh") return RecurrentOp::kTanh;
  if (name == "sigmoid") return RecurrentOp::kSigmoid;
  if (name == "relu") return RecurrentOp::kRelu;
  fail(Fault::kUnsupported, "no op %.40s", name.c_str());
}

size_t gates_of(RecurrentOp op) {
  if (op == RecurrentOp::kLstm) return 4;
  return op == RecurrentOp::kGruReset || op == RecurrentOp::kGruLinear ? 3 : 1;
}

const Tensor& of_shape(const Tensor& tensor, std::vector<size_t> shape) {
  if (tensor.shape != shape) {
    fail(Fault::kModel, "expected %s, got %s", Tensor(tensor.dtype, shape).text().c_str(),
         tensor.text().c_str());
  }
  return tensor;
}

class RecurrentStep : public Step {
 public:
  explicit RecurrentStep(const Node& node)
      : op_(op_of(node)),
        gates_(gates_of(op_)),
        gemm_(find_gemm(node.isa)),
        activate_(find_recurrent(node.isa)) {
    const Tensor &x = node.in(kX), &w = node.in(kW), &y = node.out(kY);
    if (x.rank() != 3 || w.rank() != 3 || y.rank() != 4 || x.count == 0 || y.count == 0)
      fail(Fault::kModel, "%s by %s into %s", x.text().c_str(), w.text().c_str(), y.text().c_str());
    steps_ = x.shape[0], batch_ = x.shape[1], inputs_ = x.shape[2];
    directions_ = w.shape[0], hidden_ = y.shape[3];
    if (directions_ != 1 && directions_ != 2) fail(Fault::kModel, "%zu directions", directions_);
    columns_ = checked_product(gates_, hidden_);
    const std::vector<size_t> state{directions_, batch_, hidden_};
    of_shape(y, {steps_, directions_, batch_, hidden_});
    of_shape(w, {directions_, columns_, inputs_});
    of_shape(node.in(kR), {directions_, columns_, hidden_});
    of_shape(node.out(kLastH), state);
    if (node.input(kH)) of_shape(node.in(kH), state);
    if (node.input(kC)) of_shape(node.in(kC), state);
    if (op_ == RecurrentOp::kLstm) of_shape(node.out(kLastC), state);
    if (node.outputs.size() > (op_ == RecurrentOp::kLstm ? 3u : 2u) ||
        (op_ != RecurrentOp::kLstm && node.input(kC)))
      fail(Fault::kModel, "only lstm has a cell state");
    has_h_ = node.input(kH) != nullptr;
    has_c_ = node.input(kC) != nullptr;
    reverse_ = node.attrs.integer("reverse", 0) != 0;
    input_forget_ = node.attrs.integer("input_forget", 0) != 0;
    const float clip = node.attrs.number("clip", 0.f);
    clip_ = clip > 0 ? clip : INFINITY;
    chunks_ = (hidden_ + kUnits - 1) / kUnits;
    if (const float* p = node.constant(kPeepholes, checked_product(3 * directions_, hidden_))) {
      if (op_ != RecurrentOp::kLstm) fail(Fault::kModel, "only lstm has peepholes");
      peepholes_.assign(p, p + 3 * directions_ * hidden_);
    }
    pack(node);
  }

  bool reads(size_t i) const override {
    return i != kW && i != kR && i != kBias && i != kPeepholes;
  }

  size_t scratch_bytes(int threads) const override {
    const size_t each = checked_product(kRows * kUnits, gates_);
    const size_t floats = projected_floats() + 3 * state_floats() +
                          checked_product(static_cast<size_t>(threads), each);
    return checked_product(floats, sizeof(float));
  }

  void run(const Buffers& b) const override {
    Pass pass{b.in(kX),
              b.out(kY),
              op_ == RecurrentOp::kLstm ? b.out(kLastC) : nullptr,
              reinterpret_cast<float*>(b.scratch),
              nullptr,
              nullptr,
              nullptr,
              nullptr};
    pass.z = pass.projected + projected_floats();
    pass.reset = pass.z + state_floats();
    float* const zeros = pass.reset + state_floats();
    pass.first_h = has_h_ ? b.in(kH) : zeros;
    pass.gates = zeros + state_floats();
    const size_t state = directions_ * batch_ * hidden_;
    std::fill_n(zeros, state, 0.f);
    if (pass.c) std::copy_n(has_c_ ? b.in(kC) : zeros, state, pass.c);
    run_gemm(gemm_,
             {steps_ * batch_, directions_ * columns_, inputs_, 1, &pass.x, inputs_,
              packed_w_.floats(), pass.projected, directions_ * columns_, 0,
              gemm_.count_panels(directions_ * columns_), project_},
             *b.pool);
    const size_t threads = static_cast<size_t>(b.pool->threads());
    const Grain grain = grain_of(kUnits * gates_ * hidden_ * std::max(batch_, kWorkOfWeight));
    if (directions_ * batch_ < threads && directions_ * chunks_ >= 2 * grain.least)
      by_units(b, pass, grain);
    else by_rows(b, pass, threads);
    for (size_t d = 0; d < directions_; ++d)
      std::copy_n(row_of(pass.y, d, time(d, steps_ - 1)), batch_ * hidden_,
                  b.out(kLastH) + d * batch_ * hidden_);
  }

 private:
  struct Pass {
    const float* x;
    float *y, *c;
    float* projected;
    float *z, *reset;
    const float* first_h;
    float* gates;  // kRows rows for each thread
  };

  size_t projected_floats() const {
    return round_up(checked_product(steps_ * batch_, directions_ * columns_) * sizeof(float)) /
           sizeof(float);
  }
  size_t state_floats() const {
    return round_up(directions_ * batch_ * hidden_ * sizeof(float)) / sizeof(float);
  }
  size_t units(size_t chunk) const { return std::min(kUnits, hidden_ - chunk * kUnits); }
  bool two_phases() const { return op_ == RecurrentOp::kGruReset; }

  // Every direction and its share of the batch on its own, from the first step to the last.
  void by_rows(const Buffers& b, const Pass& pass, size_t threads) const {
    const size_t shares = std::min(batch_, (threads + directions_ - 1) / directions_);
    const size_t work = steps_ * columns_ * hidden_ * std::max(batch_ / shares, kWorkOfWeight);
    b.pool->parallel(
        directions_ * shares, grain_of(work), [&](size_t begin, size_t end, int thread) {
          for (size_t i = begin; i < end; ++i) {
            const size_t d = i / shares, share = i % shares;
            const size_t first = batch_ * share / shares, last = batch_ * (share + 1) / shares;
            for (size_t s = 0; s < steps_; ++s) {
              if (s % kStepsBetweenLooks == 0) b.pool->look();
              for (int phase = 0; phase <= two_phases(); ++phase)
                for (size_t chunk = 0; chunk < chunks_; ++chunk)
                  advance(pass, d, s, first, last, chunk, phase, thread);
            }
          }
        });
  }

  // The units of each step are shared out.
  void by_units(const Buffers& b, const Pass& pass, Grain grain) const {
    for (size_t s = 0; s < steps_; ++s) {
      for (int phase = 0; phase <= two_phases(); ++phase) {
        b.pool->parallel(directions_ * chunks_, grain, [&](size_t begin, size_t end, int thread) {
          for (size_t i = begin; i < end; ++i)
            advance(pass, i / chunks_, s, 0, batch_, i % chunks_, phase, thread);
        });
      }
    }
  }

  // The step of the sequence that direction d takes as its step s.
  size_t time(size_t d, size_t s) const { return (d == 1 || reverse_) ? steps_ - 1 - s : s; }

  float* row_of(float* y, size_t d, size_t t) const {
    return y + (t * directions_ + d) * batch_ * hidden_;
  }

  // Rows [first, last) of the batch, the units of one chunk.
  void advance(const Pass& pass, size_t d, size_t s, size_t first, size_t last, size_t chunk,
               int phase, int thread) const {
    const size_t t = time(d, s), n = units(chunk), unit = chunk * kUnits;
    const size_t width = directions_ * columns_, state = d * batch_ * hidden_;
    const float* const h =
        s ? row_of(pass.y, d, time(d, s - 1)) : pass.first_h + d * batch_ * hidden_;
    const float* const x = pass.projected + t * batch_ * width + d * columns_ + unit * gates_;
    float* const gates = pass.gates + static_cast<size_t>(thread) * kRows * kUnits * gates_;
    const bool linear = op_ == RecurrentOp::kGruLinear;
    const size_t columns = n * (phase ? 1 : two_phases() ? 2 : gates_);
    const size_t index = (static_cast<size_t>(phase) * directions_ + d) * chunks_ + chunk;
    for (size_t row = first; row < last; row += kRows) {
      const size_t rows = std::min(kRows, last - row), at = row * hidden_;
      Epilogue e;
      e.residual = x + row * width + (phase ? 2 * n : 0);
      e.residual_stride = width;
      e.residual_channels = linear ? 2 * n : columns;
      e.bias = linear ? hidden_bias_.data() + d * columns_ + unit * gates_ : nullptr;
      const float* const a = (phase ? pass.reset + state : h) + at;
      gemm_.run({rows, columns, hidden_, 1, &a, hidden_, packed_r_.floats() + starts_[index], gates,
                 columns, 0, gemm_.count_panels(columns), e});
      Recurrent r{};
      r.op = phase ? RecurrentOp::kGruUpdate : op_;
      r.rows = rows, r.n = n;
      r.gates = gates, r.gates_stride = columns;
      r.x = x + row * width + 2 * n, r.x_stride = width;
      r.h = h + at + unit;
      r.c = pass.c ? pass.c + state + at + unit : nullptr;
      r.z = pass.z + state + at + unit;
      r.y = (two_phases() && !phase ? pass.reset + state : row_of(pass.y, d, t)) + at + unit;
      r.stride = hidden_;
      for (size_t p = 0; p < 3 && !peepholes_.empty(); ++p)
        r.peepholes[p] = peepholes_.data() + (d * 3 + p) * hidden_ + unit;
      r.clip = clip_;
      r.input_forget = input_forget_;
      activate_(r);
    }
  }

  // Rows of a parameter's `gates` gates from `first` on, for the units of a chunk: gate by gate.
  void gather(const float* from, size_t row_floats, size_t chunk, size_t first, size_t gates,
              std::vector<float>& to) const {
    for (size_t g = first; g < first + gates; ++g) {
      const float* const begin = from + (g * hidden_ + chunk * kUnits) * row_floats;
      to.insert(to.end(), begin, begin + units(chunk) * row_floats);
    }
  }

  void pack(const Node& node) {
    const size_t r_count = checked_product(columns_, hidden_);
    const float* const w = node.constant(kW, node.in(kW).count);
    const float* const r = node.constant(kR, node.in(kR).count);
    const float* const bias = node.constant(kBias, 2 * directions_ * columns_);
    const size_t width = directions_ * columns_;
    // The input's weights and what is added to their products, in the order of the chunks.
    std::vector<float> rows;
    for (size_t d = 0; d < directions_; ++d) {
      std::vector<float> of_x(columns_, 0.f), of_h(columns_, 0.f);
      for (size_t j = 0; bias && j < columns_; ++j) {
        const float* const each = bias + d * 2 * columns_;
        const bool apart = op_ == RecurrentOp::kGruLinear && j >= 2 * hidden_;
        of_x[j] = each[j] + (apart ? 0.f : each[columns_ + j]);
        of_h[j] = apart ? each[columns_ + j] : 0.f;
      }
      for (size_t chunk = 0; chunk < chunks_; ++chunk) {
        gather(w + d * columns_ * inputs_, inputs_, chunk, 0, gates_, rows);
        gather(of_x.data(), 1, chunk, 0, gates_, bias_);
        gather(of_h.data(), 1, chunk, 0, gates_, hidden_bias_);
      }
    }
    packed_w_ = Arena(
        checked_product(gemm_.pack(inputs_, width, nullptr, 1, inputs_, nullptr), sizeof(float)));
    gemm_.pack(inputs_, width, rows.data(), 1, inputs_, packed_w_.floats());
    project_.bias = bias_.data();

    size_t floats = 0;
    for (int round = 0; round < 2; ++round) {
      if (round) packed_r_ = Arena(checked_product(floats, sizeof(float)));
      floats = 0;
      for (int phase = 0; phase <= two_phases(); ++phase) {
        for (size_t d = 0; d < directions_; ++d) {
          for (size_t chunk = 0; chunk < chunks_; ++chunk) {
            const size_t first = phase ? 2 : 0, gates = phase ? 1 : two_phases() ? 2 : gates_;
            const size_t columns = gates * units(chunk);
            if (round) {
              rows.clear();
              gather(r + d * r_count, hidden_, chunk, first, gates, rows);
              starts_.push_back(floats);
            }
            const size_t more = gemm_.pack(hidden_, columns, rows.data(), 1, hidden_,
                                           round ? packed_r_.floats() + floats : nullptr);
            floats += round_up(more * sizeof(float)) / sizeof(float);
          }
        }
      }
    }
  }

  RecurrentOp op_;
  size_t gates_;
  GemmKernel gemm_;
  RecurrentFn activate_;
  size_t steps_, batch_, inputs_, directions_, hidden_;
  size_t columns_;  // gates * hidden
  size_t chunks_;
  bool has_h_, has_c_, reverse_, input_forget_;
  float clip_;
  std::vector<float> peepholes_, bias_, hidden_bias_;
  Arena packed_w_, packed_r_;
  std::vector<size_t> starts_;  // of each phase, direction and chunk in packed_r_
  Epilogue project_;
};

}  // namespace

RecurrentFn find_recurrent(uint32_t isa) {
#define PALM_KERNEL(need, name) \
  if ((isa & (need)) == (need)) return &name;
#include "kernels/recurrent/kernels.inc"
#undef PALM_KERNEL
  PALM_EVERY_SET_WAS_TRIED;
}

PALM_OPERANDS(recurrent, kOperands)
StepPtr make_recurrent(const Node& node) { return std::make_unique<RecurrentStep>(node); }

}  // namespace palm
