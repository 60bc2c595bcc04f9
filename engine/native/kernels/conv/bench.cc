// GFLOP/s of convolutions as vision networks have them, by each algorithm that suits. Arguments:
// threads (1), then a word that the names must hold.
#include "base/bench.h"

#include <algorithm>
#include <cstring>

#include "base/cpu.h"
#include "base/one_step.h"
#include "kernels/conv/conv.h"

namespace {

struct Case {
  const char* kind;
  size_t size, in, out, kernel, stride, groups;
};

constexpr Case kCases[] = {
    {"1x1", 64, 24, 24, 1, 1, 1},     {"1x1", 64, 24, 28, 1, 1, 1},
    {"1x1", 32, 32, 36, 1, 1, 1},     {"1x1", 16, 80, 88, 1, 1, 1},
    {"1x1", 8, 96, 96, 1, 1, 1},      {"1x1", 96, 16, 16, 1, 1, 1},
    {"1x1", 24, 64, 64, 1, 1, 1},     {"1x1", 12, 256, 256, 1, 1, 1},
    {"1x1", 112, 16, 96, 1, 1, 1},    {"1x1", 56, 96, 24, 1, 1, 1},
    {"1x1", 7, 960, 160, 1, 1, 1},    {"1x1", 7, 160, 960, 1, 1, 1},
    {"1x1", 1, 1280, 1000, 1, 1, 1},  {"first", 128, 3, 24, 5, 2, 1},
    {"first", 192, 3, 32, 5, 2, 1},   {"first", 224, 3, 32, 3, 2, 1},
    {"first", 256, 3, 16, 3, 2, 1},   {"first", 224, 3, 64, 7, 2, 1},
    {"3x3", 56, 64, 64, 3, 1, 1},     {"3x3", 28, 128, 128, 3, 1, 1},
    {"3x3", 14, 256, 256, 3, 1, 1},   {"3x3", 7, 512, 512, 3, 1, 1},
    {"3x3s2", 56, 64, 128, 3, 2, 1},  {"3x3s2", 14, 256, 512, 3, 2, 1},
    {"group", 28, 64, 64, 3, 1, 4},   {"dw3", 64, 24, 24, 3, 1, 24},
    {"dw3", 96, 16, 16, 3, 1, 16},    {"dw3", 112, 32, 32, 3, 1, 32},
    {"dw3", 56, 144, 144, 3, 1, 144}, {"dw3", 14, 384, 384, 3, 1, 384},
    {"dw3", 7, 960, 960, 3, 1, 960},  {"dw3s2", 112, 96, 96, 3, 2, 96},
    {"dw3s2", 64, 72, 72, 3, 2, 72},  {"dw5", 96, 32, 32, 5, 1, 32},
    {"dw5", 24, 128, 128, 5, 1, 128}, {"dw5", 6, 256, 256, 5, 1, 256},
    {"dw5s2", 96, 32, 32, 5, 2, 32},
};

}  // namespace

int main(int count, char** values) {
  using namespace palm;
  const int threads = count > 1 ? std::atoi(values[1]) : 1;
  Random random;
  bench_header("GFLOP/s");
  for (const Case& c : kCases) {
    const int64_t k = static_cast<int64_t>(c.kernel), s = static_cast<int64_t>(c.stride);
    const size_t depth = c.kernel * c.kernel * c.in / c.groups, size = (c.size - 1) / c.stride + 1;
    const Vector x = random.floats(c.size * c.size * c.in), w = random.floats(c.out * depth);
    const Vector bias = random.floats(c.out);
    Vector y(size * size * c.out);
    OneStep step("conv");
    step.input({1, c.size, c.size, c.in}, x)
        .input({c.out, c.kernel, c.kernel, c.in / c.groups}, w, true)
        .input({c.out}, bias, true)
        .output({1, size, size, c.out})
        .attr("strides", Ints{s, s})
        .attr("pads", Ints{k / 2, k / 2, k / 2, k / 2})
        .attr("group", static_cast<int64_t>(c.groups))
        .attr("activation", std::string("clip"))
        .attr("activation_params", Floats{0, 6});
    for (const auto& [algorithm, seconds, terms] : conv_candidates(step.node(host_isa()))) {
      char name[80];
      std::snprintf(name, sizeof name, "%s %zux%zux%zu -> %zu %s", c.kind, c.size, c.size, c.in,
                    c.out, algorithm.c_str());
      if (count > 2 && !std::strstr(name, values[2])) continue;
      const double work = 2.0 * static_cast<double>(size * size * c.out * depth);
      const auto make = [&](uint32_t isa) {
        step.attr("algorithm", algorithm).make(isa, threads);
        return [&] { step.run(y.data(), y.size()); };
      };
      const auto suits = [&, &wanted = algorithm](uint32_t isa) {
        const auto all = conv_candidates(step.attr("algorithm", std::string()).node(isa));
        return std::any_of(all.begin(), all.end(),
                           [&](const auto& each) { return each.algorithm == wanted; });
      };
      bench(name, work, make, suits);
    }
  }
}
