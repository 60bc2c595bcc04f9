// GFLOP/s of 1x1 convolutions, zeros counted as work: by GEMMs, and by the weights that are not
// zero. Arguments: threads (1), then a word that the names must hold.
#include "base/bench.h"

#include <cstring>

#include "base/cpu.h"
#include "base/one_step.h"

namespace {

struct Case {
  size_t size, in, out;
};

constexpr Case kCases[] = {{64, 24, 28},  {32, 36, 42},   {16, 88, 96},   {24, 64, 64},
                           {56, 96, 24},  {28, 128, 128}, {12, 256, 256}, {14, 512, 512},
                           {7, 960, 160}, {7, 160, 960}};
constexpr int kPercents[] = {0, 60, 70, 80, 90, 95};

}  // namespace

int main(int count, char** values) {
  using namespace palm;
  const int threads = count > 1 ? std::atoi(values[1]) : 1;
  Random random;
  bench_header("GFLOP/s, % of zeros");
  for (const Case& c : kCases) {
    const size_t pixels = c.size * c.size;
    const Vector x = random.floats(pixels * c.in), bias = random.floats(c.out);
    Vector y(pixels * c.out);
    for (int percent : kPercents) {
      Vector w = random.floats(c.out * c.in);
      for (float& each : w)
        if (random.between(0, 99) < static_cast<size_t>(percent)) each = 0;
      char name[80];
      std::snprintf(name, sizeof name, "%zux%zux%zu -> %zu, %d %%", c.size, c.size, c.in, c.out,
                    percent);
      if (count > 2 && !std::strstr(name, values[2])) continue;
      OneStep step("conv");
      step.input({1, c.size, c.size, c.in}, x)
          .input({c.out, 1, 1, c.in}, w, true)
          .input({c.out}, bias, true)
          .output({1, c.size, c.size, c.out})
          .attr("activation", std::string("clip"))
          .attr("activation_params", Floats{0, 6})
          .attr("algorithm", std::string(percent ? "sparse" : "gemm"));
      bench(name, 2.0 * static_cast<double>(pixels * c.out * c.in), [&](uint32_t isa) {
        step.make(isa, threads);
        return [&] { step.run(y.data(), y.size()); };
      });
    }
  }
}
