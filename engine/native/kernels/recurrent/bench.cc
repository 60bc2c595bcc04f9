#include "base/bench.h"

#include "base/one_step.h"

int main() {
  using namespace palm;
  constexpr size_t kSteps = 50;
  constexpr struct {
    const char* name;
    const char* op;
    size_t inputs, hidden, gates;
  } kCases[] = {{"lstm 64 to 128", "lstm", 64, 128, 4}, {"gru 256 to 256", "gru", 256, 256, 3}};
  Random random;
  bench_header("GMAC/s, 50 steps of");
  for (const auto& c : kCases) {
    const size_t columns = c.gates * c.hidden;
    const Vector x = random.floats(kSteps * c.inputs), w = random.floats(columns * c.inputs);
    const Vector r = random.floats(columns * c.hidden, 0.1f);
    Vector y(kSteps * c.hidden), h(c.hidden), cell(c.hidden);
    const bool lstm = c.gates == 4;
    OneStep step("recurrent");
    step.input({kSteps, 1, c.inputs}, x).input({1, columns, c.inputs}, w, true);
    step.input({1, columns, c.hidden}, r, true).output({kSteps, 1, 1, c.hidden});
    step.output({1, 1, c.hidden}).attr("op", std::string(c.op));
    if (lstm) step.output({1, 1, c.hidden});
    bench(c.name, static_cast<double>(kSteps * columns * (c.inputs + c.hidden)), [&](uint32_t isa) {
      step.make(isa, 1);
      return [&, lstm] {
        if (lstm) step.run({y.data(), h.data(), cell.data()});
        else step.run({y.data(), h.data()});
      };
    });
  }
}
