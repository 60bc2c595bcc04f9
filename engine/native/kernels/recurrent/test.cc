#include <cmath>
#include <functional>

#include "base/check.h"
#include "base/one_step.h"
#include "kernels/recurrent/recurrent.h"

namespace {

using namespace palm;

double s(double v) { return 1 / (1 + std::exp(-v)); }

// The gates alone, of 0 .. 70 units.
void check_sizes(const char* name, RecurrentFn run) {
  Random random;
  for (size_t n = 0; n <= 70; ++n) {
    const size_t rows = 3, stride = n + 2, wide = 4 * n + 1;
    const Vector gates = random.floats(rows * wide, 3.f), x = random.floats(rows * stride);
    const Vector h = random.floats(rows * stride), c0 = random.floats(rows * stride);
    const Vector p = random.floats(3 * n + 1);
    for (int op = 0; op <= static_cast<int>(RecurrentOp::kRelu); ++op) {
      const double clip = n % 2 ? 0.7 : INFINITY;
      Vector c = c0, z = c0, y(rows * stride, 77.f);
      Recurrent r{};
      r.op = static_cast<RecurrentOp>(op);
      r.rows = rows, r.n = n, r.gates = gates.data(), r.gates_stride = wide;
      r.x = x.data(), r.x_stride = stride, r.h = h.data(), r.c = c.data(), r.z = z.data();
      r.y = y.data(), r.stride = stride, r.clip = static_cast<float>(clip);
      const bool peeps = n % 3 == 0;
      for (size_t i = 0; i < 3 && peeps; ++i) r.peepholes[i] = p.data() + i * n;
      r.input_forget = n % 5 == 0;
      run(r);
      for (size_t i = 0; i < rows * stride; ++i) {
        const size_t row = i / stride, j = i % stride;
        if (j >= n) {
          PALM_CHECK(y[i] == 77.f && c[i] == c0[i] && z[i] == c0[i], "%s wrote past n=%zu", name,
                     n);
          continue;
        }
        const auto sum = [&](size_t g) {
          return static_cast<double>(gates[row * wide + g * n + j]);
        };
        const auto clipped = [&](double v) { return std::fmin(clip, std::fmax(-clip, v)); };
        const auto peep = [&](size_t g, size_t which, double cell) {
          return s(clipped(sum(g) + (peeps ? p[which * n + j] * cell : 0)));
        };
        double expected = 0;
        switch (r.op) {
          case RecurrentOp::kLstm: {
            const double in = peep(0, 0, c0[i]), keep = r.input_forget ? 1 - in : peep(2, 2, c0[i]);
            const double cell = keep * c0[i] + in * std::tanh(clipped(sum(3)));
            PALM_CHECK(is_close(c[i], cell, 2e-6), "%s: cell %g for %g", name, c[i], cell);
            expected = peep(1, 1, cell) * std::tanh(cell);
            break;
          }
          case RecurrentOp::kGruReset:
            PALM_CHECK(is_close(z[i], s(clipped(sum(0))), 2e-6), "%s: z", name);
            expected = s(clipped(sum(1))) * h[i];
            break;
          case RecurrentOp::kGruUpdate:
            expected = c0[i] * static_cast<double>(h[i]) + (1 - c0[i]) * std::tanh(clipped(sum(0)));
            break;
          case RecurrentOp::kGruLinear: {
            const double update = s(clipped(sum(0)));
            const double fresh = std::tanh(clipped(x[i] + s(clipped(sum(1))) * sum(2)));
            expected = update * h[i] + (1 - update) * fresh;
            break;
          }
          case RecurrentOp::kTanh: expected = std::tanh(clipped(sum(0))); break;
          case RecurrentOp::kSigmoid: expected = s(clipped(sum(0))); break;
          case RecurrentOp::kRelu: expected = std::fmax(0, clipped(sum(0))); break;
        }
        PALM_CHECK(is_close(y[i], expected, 2e-6), "%s: op %d, n=%zu: %g for %g", name, op, n, y[i],
                   expected);
      }
    }
  }
}

struct Layer {
  size_t steps, batch, inputs, hidden, directions, gates;
  Vector x, w, r, bias, h, c;

  Layer(Random& random, size_t gates_)
      : steps(random.between(1, 6)),
        batch(random.between(1, 40)),
        inputs(random.between(1, 20)),
        hidden(random.between(1, 70)),
        directions(random.between(1, 2)),
        gates(gates_),
        x(random.floats(steps * batch * inputs)),
        w(random.floats(directions * gates * hidden * inputs)),
        r(random.floats(directions * gates * hidden * hidden, 0.2f)),
        bias(random.floats(directions * 2 * gates * hidden)),
        h(random.floats(directions * batch * hidden)),
        c(random.floats(directions * batch * hidden)) {}

  size_t state() const { return directions * batch * hidden; }

  // y, then the last h, then the last c; `linear`: of a GRU.
  std::vector<double> run(const std::string& op, bool reverse, bool linear) const {
    const auto end = static_cast<ptrdiff_t>(state());
    std::vector<double> y(steps * state()), last_h(h.begin(), h.begin() + end);
    std::vector<double> last_c(c.begin(), c.begin() + end);
    for (size_t d = 0; d < directions; ++d) {
      for (size_t b = 0; b < batch; ++b) {
        double* const hidden_state = last_h.data() + (d * batch + b) * hidden;
        double* const cell = last_c.data() + (d * batch + b) * hidden;
        for (size_t step = 0; step < steps; ++step) {
          const size_t t = d == 1 || reverse ? steps - 1 - step : step;
          const auto project = [&](size_t row) {
            double sum = bias[d * 2 * gates * hidden + row];
            for (size_t i = 0; i < inputs; ++i)
              sum += static_cast<double>(w[(d * gates * hidden + row) * inputs + i]) *
                     x[(t * batch + b) * inputs + i];
            return sum;
          };
          const auto recur = [&](size_t row, const double* state) {
            double sum = bias[(d * 2 + 1) * gates * hidden + row];
            for (size_t i = 0; i < hidden; ++i)
              sum += static_cast<double>(r[(d * gates * hidden + row) * hidden + i]) * state[i];
            return sum;
          };
          const auto all = [&](size_t row) { return project(row) + recur(row, hidden_state); };
          std::vector<double> reset(hidden), fresh(hidden);
          for (size_t u = 0; u < hidden && op == "gru"; ++u)
            reset[u] = s(all(hidden + u)) * (linear ? 1 : hidden_state[u]);
          for (size_t u = 0; u < hidden; ++u) {
            if (op == "lstm") {
              cell[u] =
                  s(all(2 * hidden + u)) * cell[u] + s(all(u)) * std::tanh(all(3 * hidden + u));
              fresh[u] = s(all(hidden + u)) * std::tanh(cell[u]);
            } else if (op == "gru") {
              const size_t row = 2 * hidden + u;
              const double inner =
                  linear ? reset[u] * recur(row, hidden_state) : recur(row, reset.data());
              const double update = s(all(u)), next = std::tanh(project(row) + inner);
              fresh[u] = update * hidden_state[u] + (1 - update) * next;
            } else {
              fresh[u] = op == "tanh" ? std::tanh(all(u)) : std::fmax(0, all(u));
            }
          }
          for (size_t u = 0; u < hidden; ++u) {
            hidden_state[u] = fresh[u];
            y[((t * directions + d) * batch + b) * hidden + u] = fresh[u];
          }
        }
      }
    }
    y.insert(y.end(), last_h.begin(), last_h.end());
    if (op == "lstm") y.insert(y.end(), last_c.begin(), last_c.end());
    return y;
  }
};

void check_layers(const char* name, uint32_t isa) {
  Random random;
  for (int trial = 0; trial < 60; ++trial) {
    const std::string op = trial % 4 == 0   ? "lstm"
                           : trial % 4 == 3 ? (trial % 8 == 3 ? "tanh" : "relu")
                                            : "gru";
    const bool linear = trial % 4 == 2, reverse = trial % 3 == 0;
    Layer layer(random, op == "lstm" ? 4 : op == "gru" ? 3 : 1);
    if (trial % 5 == 0) layer.batch = 1, layer.directions = 1;
    const size_t d = layer.directions, n = layer.hidden, b = layer.batch;
    const size_t count = layer.steps * layer.state(), state = layer.state();
    layer.x.resize(layer.steps * b * layer.inputs);
    const std::vector<double> expected = layer.run(op, reverse, linear);
    Vector first;
    for (int threads : {1, 3}) {
      Vector y(count + 1, 77.f), last_h(state + 1, 77.f), last_c(state + 1, 77.f);
      OneStep step("recurrent");
      const Vector h(layer.h.begin(), layer.h.begin() + static_cast<ptrdiff_t>(state));
      const Vector c(layer.c.begin(), layer.c.begin() + static_cast<ptrdiff_t>(state));
      const auto cut = [&](const Vector& v, size_t size) {
        return Vector(v.begin(), v.begin() + static_cast<ptrdiff_t>(size));
      };
      const size_t columns = layer.gates * n;
      const Vector w = cut(layer.w, d * columns * layer.inputs), r = cut(layer.r, d * columns * n);
      const Vector bias = cut(layer.bias, d * 2 * columns);
      step.input({layer.steps, b, layer.inputs}, layer.x)
          .input({d, columns, layer.inputs}, w, true);
      step.input({d, columns, n}, r, true).input({d, 2 * columns}, bias, true).input({d, b, n}, h);
      if (op == "lstm") step.input({d, b, n}, c);
      step.output({layer.steps, d, b, n}).output({d, b, n});
      if (op == "lstm") step.output({d, b, n});
      step.attr("op", op).attr("reverse", int64_t{reverse});
      if (op == "gru") step.attr("linear_before_reset", int64_t{linear});
      step.make(isa, threads);
      if (op == "lstm") step.run({y.data(), last_h.data(), last_c.data()});
      else step.run({y.data(), last_h.data()});
      for (size_t i = 0; i < expected.size(); ++i) {
        const float got = i < count           ? y[i]
                          : i < count + state ? last_h[i - count]
                                              : last_c[i - count - state];
        PALM_CHECK(is_close(got, expected[i], 1e-5), "%s: %s, trial %d: %zu is %g, expected %g",
                   name, op.c_str(), trial, i, got, expected[i]);
      }
      PALM_CHECK(y[count] == 77.f && last_h[state] == 77.f && last_c[state] == 77.f,
                 "%s: wrote past the end", name);
      if (threads == 1) first = y;
      PALM_CHECK(y == first, "%s: 3 threads give another result", name);
    }
  }
}

}  // namespace

int main() {
#define PALM_KERNEL(need, name)                                             \
  if (runs_here(need)) check_sizes(#name, name), check_layers(#name, need); \
  else std::printf("skip %s\n", #name);
#include "kernels/recurrent/kernels.inc"
#undef PALM_KERNEL
}
