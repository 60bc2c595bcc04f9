// Every way of convolving, against a loop.
#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "kernels/conv/conv.h"
#include "kernels/conv/conv_case.h"
#include "kernels/winograd/blocks.h"

namespace {

using namespace palm;

constexpr float kUntouched = 77.f;

Vector outputs_last(const Vector& w, size_t out) {
  Vector to(w.size());
  const size_t depth = w.size() / out;
  for (size_t i = 0; i < w.size(); ++i) to[i % depth * out + i / depth] = w[i];
  return to;
}

// The kernel's own choice and every algorithm that suits. zeros: in per cent of the weights.
// halves: these are of float16.
void check(const char* isa_name, uint32_t isa, const ConvCase& c, Random& random,
           size_t zeros = 0, bool halves = false) {
  const size_t out = c.out(), count = c.count();
  const float scale = 2.f / std::sqrt(static_cast<float>(c.depth()));
  const Vector x = random.floats(c.images * c.height * c.width * c.in());
  Vector w = random.floats(out * c.depth(), scale);
  if (zeros)
    for (float& each : w)
      if (random.between(1, 100) <= zeros) each = 0;
  if (halves)
    for (float& each : w) each = std::round(each * 1024) / 1024;
  const Vector bias = random.floats(out), slope = random.floats(out);
  const Vector z = random.floats(count / out * c.residual_channels);
  OneStep step("conv"), rows("conv");
  const Vector across = outputs_last(w, out);
  for (OneStep* each : {&step, &rows}) {
    each->input({c.images, c.height, c.width, c.in()}, x);
    if (each != &rows) each->input({out, c.kernel_height, c.kernel_width, c.group_in}, w, true);
    else each->input({c.kernel_height, c.kernel_width, c.group_in, out}, across, true);
    c.bias ? each->input({out}, bias, true) : each->no_input();
    c.is("prelu") ? each->input({out}, slope, true) : each->no_input();
    if (c.residual_channels)
      each->input({c.images, c.out_height(), c.out_width(), c.residual_channels}, z);
    each->output({c.images, c.out_height(), c.out_width(), out});
    c.set_attrs(*each);
  }
  rows.attr("outputs_last", int64_t{1});
  OneStep wide = step.in_wider_pixels(random);
  std::vector<std::string> wide_algorithms;
  for (const Candidate& each : conv_candidates(wide.node(isa)))
    wide_algorithms.push_back(each.algorithm);
  const bool can_read_rows = c.groups == 1 && out % 8 == 0;
  const std::vector<double> expected = c.expect(x, w, bias, slope, z);
  std::vector<std::string> algorithms;
  for (const Candidate& each : conv_candidates(step.node(isa)))
    algorithms.push_back(each.algorithm);
  const bool sparse = std::find(algorithms.begin(), algorithms.end(), "sparse") != algorithms.end();
  PALM_CHECK(zeros ? sparse || zeros < 80 : !sparse, "%s: %s: sparse", isa_name, c.text().c_str());
  algorithms.push_back("");
  for (const std::string& algorithm : algorithms) {
    step.attr("algorithm", algorithm);
    Vector y(count + 1, kUntouched), y3(count + 1, kUntouched);
    step.make(isa, 1).run(y.data(), count);
    const bool winograd = (algorithm.empty() ? algorithms[0] : algorithm).find("winograd") == 0;
    for (size_t i = 0; i < count; ++i) {
      PALM_CHECK(is_close(y[i], expected[i], winograd ? 4e-5 : 2e-5),
                 "%s: %s, algorithm %s: y[%zu] is %g, expected %g", isa_name, c.text().c_str(),
                 algorithm.c_str(), i, static_cast<double>(y[i]), expected[i]);
    }
    PALM_CHECK(y[count] == kUntouched, "%s: %s: wrote past the end", isa_name, algorithm.c_str());
    step.make(isa, 3).run(y3.data(), count);
    PALM_CHECK(y == y3, "%s: %s: 3 threads give another result", isa_name, algorithm.c_str());
    if (std::count(wide_algorithms.begin(), wide_algorithms.end(), algorithm)) {
      wide.attr("algorithm", algorithm).make(isa, 3);
      PALM_CHECK(wide.writes(y), "%s: %s, algorithm %s: channels of wider pixels are not the same",
                 isa_name, c.text().c_str(), algorithm.c_str());
    }
    if (!can_read_rows || (algorithm != "gemm" && algorithm != "rows")) continue;
    rows.attr("algorithm", algorithm).make(isa, 3).run(y3.data(), count);
    PALM_CHECK(y == y3, "%s: %s: weights that are read as they lie give another result", isa_name,
               algorithm.c_str());
  }
}

// Images that are multiplied by gates, or whose channels are two images', before they are
// convolved: the step that does it at once, against a loop over what it would read.
void check_joined(const char* isa_name, uint32_t isa, Random& random) {
  for (size_t trial = 0; trial < trials(120); ++trial) {
    const bool gated = trial % 2, across = gated && trial % 3 == 0;
    ConvCase c{};
    c.images = gated ? 1 : random.between(1, 2), c.groups = 1;
    c.height = random.between(1, 20), c.width = random.between(1, 20);
    c.group_in = random.between(1, 40) * (gated ? 1 : 2);
    c.group_out = across ? random.between(1, 12) * 8 : random.between(1, 90);
    c.kernel_height = c.kernel_width = c.stride_y = c.stride_x = c.dilation_y = c.dilation_x = 1;
    c.residual_channels = trial % 5 ? 0 : c.out();
    c.bias = trial % 4 != 0;
    c.activation = trial % 7 < 3 ? "clip" : trial % 7 < 5 ? "prelu" : "hard_swish";
    const size_t in = c.in(), out = c.out(), pixels = c.images * c.height * c.width;
    const size_t of_each = gated ? in : in / 2;
    const Vector x = random.floats(pixels * of_each), second = random.floats(pixels * of_each);
    const Vector gate = random.floats(in), bias = random.floats(out), slope = random.floats(out);
    const Vector w = random.floats(out * in, 2.f / std::sqrt(static_cast<float>(in)));
    const Vector z = random.floats(pixels * c.residual_channels), turned = outputs_last(w, out);
    Vector read(pixels * in);
    for (size_t i = 0; i < read.size(); ++i) {
      const size_t pixel = i / in, channel = i % in;
      if (gated) read[i] = x[i] * gate[channel];
      else read[i] = (channel < of_each ? x : second)[pixel * of_each + channel % of_each];
    }
    OneStep step("conv");
    step.input({c.images, c.height, c.width, of_each}, x);
    if (across) step.input({1, 1, in, out}, turned, true).attr("outputs_last", int64_t{1});
    else step.input({out, 1, 1, in}, w, true);
    c.bias ? step.input({out}, bias, true) : step.no_input();
    c.is("prelu") ? step.input({out}, slope, true) : step.no_input();
    if (c.residual_channels) step.input({c.images, c.height, c.width, out}, z);
    else step.no_input();
    if (gated) step.input({1, 1, 1, in}, gate);
    else step.no_input().input({c.images, c.height, c.width, of_each}, second);
    step.output({c.images, c.height, c.width, out});
    c.set_attrs(step);
    const std::vector<double> expected = c.expect(read, w, bias, slope, z);
    Vector y(expected.size());
    for (const int threads : {1, 3}) {
      Vector got(expected.size());
      step.make(isa, threads, true).run(got.data(), got.size());
      if (threads == 1) y = got;
      for (size_t i = 0; i < y.size(); ++i) {
        PALM_CHECK(got[i] == y[i] && is_close(got[i], expected[i], 2e-5),
                   "%s: %s, %s: y[%zu] is %g, expected %g", isa_name, c.text().c_str(),
                   gated ? "gated" : "two images", i, static_cast<double>(got[i]), expected[i]);
      }
      // Both images have to have the same distance from a pixel to the next.
      if (!gated) continue;
      PALM_CHECK(step.in_wider_pixels(random).make(isa, threads).writes(y), "%s: %s: wider pixels",
                 isa_name, c.text().c_str());
    }
  }
}

void check(const char* isa_name, uint32_t isa) {
  constexpr const char* kActivations[] = {"",           "clip",         "prelu",   "leaky_relu",
                                          "hard_swish", "hard_sigmoid", "sigmoid", "tanh"};
  Random random;
  const auto pick = [&](std::initializer_list<size_t> from) {
    return from.begin()[random.bits() % from.size()];
  };
  for (size_t i = 0; i < trials(400); ++i) {
    ConvCase c{};
    c.images = random.between(1, 2);
    c.groups = pick({1, 1, 1, 2, 3});
    c.group_in = random.between(1, 20), c.group_out = random.between(1, 40);
    c.kernel_height = pick({1, 2, 3, 3, 5, 7}), c.kernel_width = pick({1, 2, 3, 3, 5, 7});
    c.stride_y = random.between(1, 3), c.stride_x = random.between(1, 3);
    c.dilation_y = pick({1, 1, 2}), c.dilation_x = pick({1, 1, 2});
    c.top = random.between(0, 3), c.left = random.between(0, 3);
    c.bottom = random.between(0, 3), c.right = random.between(0, 3);
    const bool depthwise = i % 3 == 0;
    if (depthwise) {
      c.groups = random.between(2, 70), c.group_in = 1, c.group_out = pick({1, 1, 1, 2, 3});
      c.kernel_width = c.kernel_height, c.stride_x = c.stride_y;
      c.dilation_x = c.dilation_y = pick({1, 1, 1, 2});
    }
    if (i % 8 == 1) {
      c.kernel_height = c.kernel_width = c.stride_y = c.stride_x = 1;
      c.top = c.left = c.bottom = c.right = 0;
    }
    if (i % 4 == 3 && !depthwise) {
      c.groups = c.stride_y = c.stride_x = c.dilation_y = c.dilation_x = 1;
      c.kernel_height = c.kernel_width = 3;
    }
    // Large enough for one window, now and then for just one.
    const size_t most = i % 5 == 0 ? 2 : 22;
    c.height = random.between(1, most), c.width = random.between(1, most);
    c.make_room();
    c.residual_channels = pick({0, 0, 1, 2}) * c.out() / 2;
    c.bias = random.bits() % 4 != 0;
    c.activation = kActivations[random.bits() % 8];
    check(isa_name, isa, c, random);
  }
  check_joined(isa_name, isa, random);
  // Weights with zeros anywhere, over blocks of pixels and channels that come out even and odd.
  for (size_t i = 0; i < trials(160); ++i) {
    ConvCase c{};
    c.images = random.between(1, 2), c.groups = 1;
    c.height = random.between(1, 20), c.width = random.between(1, 20);
    c.group_in = random.between(1, 90), c.group_out = random.between(1, 90);
    c.kernel_height = c.kernel_width = c.stride_y = c.stride_x = c.dilation_y = c.dilation_x = 1;
    c.residual_channels = pick({0, 0, 1, 2}) * c.out() / 2;
    c.bias = random.bits() % 4 != 0;
    c.activation = kActivations[random.bits() % 8];
    // A few weights may all be others.
    const size_t zeros = pick({70, 90, 100});
    check(isa_name, isa, c, random, c.group_in * c.group_out < 200 ? 70 : zeros);
  }
  // Pictures, their pixels taken in squares.
  for (size_t kernel = 5; kernel <= 8; ++kernel) {
    for (size_t size = 9; size < 30; size += 4) {
      const size_t channels = 2 + size / 4 % 3, pad = kernel / 2, end = size % 3;
      check(isa_name, isa,
            {2, size, size + 3, 1, channels, 5 + size, kernel, kernel, 2, 2, 1, 1, pad, pad - 1,
             end, end + 1, size % 2 * 4, true, size % 5 ? "prelu" : "hard_swish"},
            random);
    }
  }
  // Kernels so many that they are kept as they are, over tiles that come out even and odd.
  for (size_t size : {2, 7, 10, 13}) {
    for (size_t in : {57, 64}) {
      check(isa_name, isa,
            {size / 7 + 1, size, size + in % 5, 1, in, 256, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1,
             size % 2 * 256, true, size % 2 ? "prelu" : "clip"},
            random);
    }
  }
  // One pixel, by weights that are of float16 and so many that they are kept so.
  for (size_t out : {230, 256, 300}) {
    for (size_t size : {1, 3}) {
      check(isa_name, isa,
            {1, size, size, 1, 300 / size, out, size, size, 1, 1, 1, 1, 0, 0, 0, 0,
             out % 4 ? size_t{0} : out / 2, true, out % 3 ? "prelu" : "hard_swish"},
            random, 0, true);
    }
  }
  // Signals, whose one row is shared out.
  for (size_t width : {70, 211, 640}) {
    for (size_t stride : {1, 2, 5}) {
      for (size_t pad : {0, 2, 8}) {
        check(isa_name, isa,
              {1 + width % 2, 1, width, 1, 6, 13, 1, 9, 1, stride, 1, 1, 0, pad, 0, pad / 2, 13,
               true, "prelu"},
              random);
        check(isa_name, isa,
              {1, 3, width, 1, 5, 20, 3, 5, 1, stride, 1, 1, pad / 4, pad, 1, pad, 0, true, "clip"},
              random);
      }
    }
  }
  // Every number of channels, in tiles at the edge and inside.
  for (size_t channels = 2; channels <= 70; channels += trial_step()) {
    for (size_t kernel : {3, 5}) {
      for (size_t stride : {1, 2}) {
        const size_t pad = kernel / 2, size = 9 + channels % 5;
        check(isa_name, isa,
              {1, size, size + 1, channels, 1, 1, kernel, kernel, stride, stride, 1, 1, pad, pad,
               pad, pad, 0, true, "clip"},
              random);
      }
    }
  }
}

// All tiles once, as many for each thread, and no block much larger than it may be.
void check_blocks(size_t tiles, size_t most, int threads, size_t rows) {
  const TileBlocks blocks(tiles, most, threads, rows);
  const auto n = static_cast<size_t>(threads), each = blocks.count() / n;
  PALM_CHECK(
      blocks.count() == each * n && blocks.begin(0) == 0 && blocks.begin(blocks.count()) == tiles,
      "%zu tiles, %d threads", tiles, threads);
  for (size_t t = 0; t < n; ++t) {
    const size_t first = blocks.begin(t * each), size = blocks.begin((t + 1) * each) - first;
    PALM_CHECK(size == tiles / n || size == (tiles + n - 1) / n, "%zu of %zu tiles", size, tiles);
    for (size_t i = 0; i < each; ++i) {
      const size_t begin = blocks.begin(t * each + i), end = blocks.begin(t * each + i + 1);
      PALM_CHECK(begin <= end && end - begin <= blocks.largest(), "block %zu", i);
      PALM_CHECK((begin - first) % rows == 0 && end - begin < most + 2 * rows, "block %zu", i);
    }
  }
}

}  // namespace

int main() {
  for (size_t tiles : {1, 2, 7, 31, 32, 49, 196, 225, 1000})
    for (size_t rows : {1, 4, 6, 8})
      for (int threads : {1, 2, 3, 8}) check_blocks(tiles, 28, threads, rows);
#define PALM_ISA(isa, need)               \
  if (runs_here(need)) check(#isa, need); \
  else std::printf("skip %s\n", #isa);
#include "base/isas.inc"
#undef PALM_ISA
}
