// Against the two steps that it stands for, bit for bit.
#include <cmath>

#include "base/check.h"
#include "base/one_step.h"

namespace {

using namespace palm;

constexpr float kUntouched = 77.f;

struct Case {
  size_t images, height, width, channels, out, kernel_height, kernel_width, stride_y, stride_x;
  size_t dilation_y, dilation_x, top, left, bottom, right;
  size_t residual_channels;  // 0: none
  bool bias;
  const char *between, *activation;

  size_t out_height() const {
    return (height + top + bottom - (kernel_height - 1) * dilation_y - 1) / stride_y + 1;
  }
  size_t out_width() const {
    return (width + left + right - (kernel_width - 1) * dilation_x - 1) / stride_x + 1;
  }
  size_t pixels() const { return images * out_height() * out_width(); }

  // A larger image where it has no room for one window.
  void make_room() {
    height = std::max(height, (kernel_height - 1) * dilation_y + 1);
    width = std::max(width, (kernel_width - 1) * dilation_x + 1);
  }

  std::string text() const {
    char text[256];
    std::snprintf(text, sizeof text,
                  "x %zux%zux%zux%zu, w %zux%zu, stride %zu %zu, dilation %zu %zu, pads %zu %zu %zu "
                  "%zu, %s, %zu out, residual %zu, %s",
                  images, height, width, channels, kernel_height, kernel_width, stride_y, stride_x,
                  dilation_y, dilation_x, top, left, bottom, right, between, out,
                  residual_channels, activation);
    return text;
  }
};

void set_window(OneStep& step, const Case& c) {
  const auto ints = [](std::initializer_list<size_t> v) { return Ints(v.begin(), v.end()); };
  step.attr("strides", ints({c.stride_y, c.stride_x}))
      .attr("dilations", ints({c.dilation_y, c.dilation_x}))
      .attr("pads", ints({c.top, c.left, c.bottom, c.right}));
}

void set_activation(OneStep& step, const std::string& prefix, const std::string& name) {
  step.attr(prefix + "activation", name);
  if (name == "clip") step.attr(prefix + "activation_params", Floats{0, 1});
  if (name == "leaky_relu") step.attr(prefix + "activation_params", Floats{0.125});
}

bool is_prelu(const char* activation) { return std::string(activation) == "prelu"; }

void check(const char* isa_name, uint32_t isa, const Case& c, Random& random) {
  const auto floats = [&](size_t count, size_t depth) {
    return random.floats(count, 2.f / std::sqrt(static_cast<float>(depth)));
  };
  const size_t taps = c.kernel_height * c.kernel_width, count = c.pixels() * c.out;
  const Vector x = random.floats(c.images * c.height * c.width * c.channels);
  const Vector taps_of = floats(taps * c.channels, taps), w = floats(c.out * c.channels, c.channels);
  const Vector bias_between = random.floats(c.channels), bias = random.floats(c.out);
  const Vector slope_between = random.floats(c.channels), slope = random.floats(c.out);
  const Vector z = random.floats(c.pixels() * c.residual_channels);
  Vector across(w.size());
  for (size_t m = 0; m < c.out; ++m)
    for (size_t i = 0; i < c.channels; ++i) across[i * c.out + m] = w[m * c.channels + i];

  const std::vector<size_t> x_shape{c.images, c.height, c.width, c.channels};
  const auto pixels_of = [&](size_t channels) {
    return std::vector<size_t>{c.images, c.out_height(), c.out_width(), channels};
  };
  const auto depthwise = [&](OneStep& step) {
    step.input(x_shape, x).input({c.channels, c.kernel_height, c.kernel_width, 1}, taps_of, true);
    c.bias ? step.input({c.channels}, bias_between, true) : step.no_input();
    is_prelu(c.between) ? step.input({c.channels}, slope_between, true) : step.no_input();
    set_window(step, c);
  };
  const auto pointwise = [&](OneStep& step, bool outputs_last) {
    if (outputs_last) step.input({1, 1, c.channels, c.out}, across, true);
    else step.input({c.out, 1, 1, c.channels}, w, true);
    c.bias ? step.input({c.out}, bias, true) : step.no_input();
    is_prelu(c.activation) ? step.input({c.out}, slope, true) : step.no_input();
    if (c.residual_channels) step.input(pixels_of(c.residual_channels), z);
    step.output(pixels_of(c.out));
    set_activation(step, "", c.activation);
    if (outputs_last) step.attr("outputs_last", int64_t{1});
  };

  Vector between(c.pixels() * c.channels), expected(count);
  OneStep first("conv"), second("conv");
  depthwise(first);
  first.output(pixels_of(c.channels)).attr("group", static_cast<int64_t>(c.channels));
  set_activation(first, "", c.between);
  first.attr("algorithm", std::string(c.channels > 1 ? "depthwise" : "gemm"));
  first.make(isa, 1).run(between.data(), between.size());
  second.input(pixels_of(c.channels), between);
  pointwise(second, false);
  second.attr("algorithm", std::string("gemm")).make(isa, 1).run(expected.data(), count);

  for (const bool outputs_last : {false, true}) {
    if (outputs_last && c.out % 8) continue;
    OneStep both("separable_conv");
    depthwise(both);
    set_activation(both, "depthwise_", c.between);
    pointwise(both, outputs_last);
    for (const int threads : {1, 2, 3, 8}) {
      Vector y(count + 1, kUntouched);
      both.make(isa, threads, true).run(y.data(), count);
      PALM_CHECK(y[count] == kUntouched, "%s: %s: wrote past the end", isa_name, c.text().c_str());
      y.pop_back();
      PALM_CHECK(y == expected, "%s: %s, %d threads%s: not what the two steps give", isa_name,
                 c.text().c_str(), threads, outputs_last ? ", weights as they lie" : "");
    }
    PALM_CHECK(both.in_wider_pixels(random).make(isa, 3, true).writes(expected),
               "%s: %s: channels of wider pixels are not the same", isa_name, c.text().c_str());
  }
}

void check(const char* isa_name, uint32_t isa) {
  constexpr const char* kActivations[] = {"", "clip", "prelu", "leaky_relu", "hard_swish"};
  Random random;
  const auto pick = [&](std::initializer_list<size_t> from) {
    return from.begin()[random.bits() % from.size()];
  };
  for (size_t i = 0; i < trials(300); ++i) {
    Case c{};
    c.images = random.between(1, 3);
    // Now and then so wide that a block is of few rows.
    const size_t most = i % 5 == 0 ? 2 : 24;
    c.height = random.between(1, most), c.width = random.between(1, i % 7 == 0 ? 150 : most);
    c.channels = random.between(2, 70), c.out = random.between(1, 9) * pick({1, 5, 8, 8});
    c.kernel_height = pick({1, 2, 3, 3, 5, 7}), c.kernel_width = pick({1, 2, 3, 3, 5, 7});
    if (i % 2) c.kernel_width = c.kernel_height;
    c.stride_y = c.stride_x = pick({1, 1, 2, 2, 3});
    c.dilation_y = c.dilation_x = pick({1, 1, 1, 2});
    if (i % 4 == 0) c.stride_x = random.between(1, 3), c.dilation_x = random.between(1, 2);
    c.top = random.between(0, 3), c.left = random.between(0, 3);
    c.bottom = random.between(0, 3), c.right = random.between(0, 3);
    c.residual_channels = pick({0, c.out, random.between(1, c.out)});
    c.bias = random.bits() % 4 != 0;
    c.between = kActivations[random.bits() % 5];
    c.activation = kActivations[random.bits() % 5];
    c.make_room();
    check(isa_name, isa, c, random);
  }
}

}  // namespace

int main() {
#define PALM_ISA(isa, need)               \
  if (runs_here(need)) check(#isa, need); \
  else std::printf("skip %s\n", #isa);
#include "base/isas.inc"
#undef PALM_ISA
}
