#include <cmath>

#include "base/check.h"
#include "base/one_step.h"

namespace {

using namespace palm;

void check(const char* isa_name, uint32_t isa) {
  Random random;
  const auto ints = [](std::initializer_list<size_t> v) { return Ints(v.begin(), v.end()); };
  for (int trial = 0; trial < 200; ++trial) {
    const size_t groups = trial % 4 == 0 ? 2 : 1, in = groups * random.between(1, 20);
    const size_t group_out = random.between(1, 20), out = groups * group_out;
    const size_t stride_y = random.between(1, 3), stride_x = random.between(1, 3);
    const bool disjoint = trial % 5 == 0;
    const size_t kernel_y = disjoint ? stride_y : random.between(1, 4);
    const size_t kernel_x = disjoint ? stride_x : random.between(1, 4);
    const size_t dilation = disjoint ? 1 : random.between(1, 2);
    const size_t extra_y = disjoint ? 0 : random.between(0, stride_y - 1);
    const size_t extra_x = disjoint ? 0 : random.between(0, stride_x - 1);
    const size_t height = random.between(2, 8), width = random.between(2, 8);
    const size_t full_y = (height - 1) * stride_y + (kernel_y - 1) * dilation + 1 + extra_y;
    const size_t full_x = (width - 1) * stride_x + (kernel_x - 1) * dilation + 1 + extra_x;
    const size_t top = random.between(0, !disjoint && full_y > 2);
    const size_t left = random.between(0, !disjoint && full_x > 2);
    const size_t oh = full_y - top, ow = full_x - left, count = 2 * oh * ow * out;
    const char* const activation = trial % 3 == 0 ? "sigmoid" : trial % 3 == 1 ? "clip" : "prelu";
    const Vector x = random.floats(2 * height * width * in), bias = random.floats(out);
    const Vector w = random.floats(in * kernel_y * kernel_x * group_out),
                 slope = random.floats(out);
    std::vector<double> expected(count);
    for (size_t i = 0; i < count; ++i) expected[i] = bias[i % out];
    for (size_t i = 0; i < x.size(); ++i) {
      const size_t c = i % in, ix = i / in % width, iy = i / in / width % height;
      const size_t image = i / in / width / height, group = c / (in / groups);
      for (size_t ky = 0; ky < kernel_y; ++ky) {
        for (size_t kx = 0; kx < kernel_x; ++kx) {
          const size_t oy = iy * stride_y + ky * dilation - top;
          const size_t ox = ix * stride_x + kx * dilation - left;
          if (oy >= oh || ox >= ow) continue;
          for (size_t m = 0; m < group_out; ++m) {
            expected[((image * oh + oy) * ow + ox) * out + group * group_out + m] +=
                static_cast<double>(x[i]) *
                w[((c * kernel_y + ky) * kernel_x + kx) * group_out + m];
          }
        }
      }
    }
    OneStep step("conv_transpose");
    step.input({2, height, width, in}, x)
        .input({in, kernel_y, kernel_x, group_out}, w, true)
        .input({out}, bias, true);
    trial % 3 == 2 ? step.input({out}, slope, true) : step.no_input();
    step.output({2, oh, ow, out})
        .attr("strides", ints({stride_y, stride_x}))
        .attr("dilations", ints({dilation, dilation}))
        .attr("pads", ints({top, left, 0, 0}))
        .attr("output_padding", ints({extra_y, extra_x}))
        .attr("group", static_cast<int64_t>(groups))
        .attr("activation", std::string(activation));
    if (trial % 3 == 1) step.attr("activation_params", Floats{0, 6});
    Vector y(count + 1, 77.f), y3(count + 1, 77.f);
    step.make(isa, 1).run(y.data(), count);
    step.make(isa, 3).run(y3.data(), count);
    for (size_t i = 0; i < count; ++i) {
      double v = expected[i];
      if (trial % 3 == 0) v = 1 / (1 + std::exp(-v));
      else if (trial % 3 == 1) v = std::fmin(6.0, std::fmax(0.0, v));
      else v = v > 0 ? v : v * slope[i % out];
      PALM_CHECK(is_close(y[i], v, 2e-5), "%s: trial %d: y[%zu] is %g, expected %g", isa_name,
                 trial, i, y[i], v);
    }
    PALM_CHECK(y[count] == 77.f, "%s: wrote past the end", isa_name);
    PALM_CHECK(y == y3, "%s: 3 threads give another result", isa_name);
  }
}

// Of factors that bfloat16 holds, the result is that of float, and rounded if it is kept so.
[[maybe_unused]] void check_narrow(const char* name, uint32_t isa) {
  Random random;
  for (int i = 0; i < 200; ++i) {
    const size_t kernel = random.between(1, 3), height = random.between(1, 5);
    const size_t width = random.between(1, 20), in = 2 * random.between(1, 20);
    const size_t out = random.between(1, 20), count = 2 * height * width * kernel * kernel * out;
    const bool narrow_x = i % 2, narrow_y = i % 3;
    const char* const activation = i % 4 == 0 ? "prelu" : i % 4 == 1 ? "hard_swish" : "";
    const std::vector<Bf16> short_x = narrow_all(random.floats(2 * height * width * in));
    const Vector x = widen_all(short_x);
    const Vector w = widen_all(narrow_all(random.floats(in * kernel * kernel * out)));
    const Vector bias = random.floats(out), slope = random.floats(out);
    Vector expected(count), wide_y(count + 1, 77.f);
    std::vector<Bf16> short_y(count + 1, Bf16{77});
    const std::vector<size_t> in_shape{2, height, width, in};
    const std::vector<size_t> out_shape{2, height * kernel, width * kernel, out};
    const auto run = [&](bool narrow, int threads, void* y) {
      OneStep step("conv_transpose");
      narrow&& narrow_x ? step.input(kNarrow, in_shape, short_x) : step.input(in_shape, x);
      step.input({in, kernel, kernel, out}, w, true).input({out}, bias, true);
      i % 4 == 0 ? step.input({out}, slope, true) : step.no_input();
      step.output(narrow && narrow_y ? kNarrow : DType::kFloat32, out_shape);
      step.attr("strides", Ints(2, static_cast<int64_t>(kernel)));
      step.attr("activation", std::string(activation));
      if (narrow) step.attr("precision", std::string(name_of(kNarrow)));
      step.make(isa, threads).run(std::vector<void*>{y});
    };
    run(false, 1, expected.data());
    run(true, 1 + i % 3, narrow_y ? static_cast<void*>(short_y.data()) : wide_y.data());
    for (size_t k = 0; k < count; ++k) {
      const double e = expected[k], got = narrow_y ? widen(short_y[k]) : wide_y[k];
      const double bound = 2e-5 * std::fmax(1, std::fabs(e)) + (narrow_y ? std::fabs(e) / 256 : 0);
      PALM_CHECK(std::fabs(got - e) <= bound, "%s: case %d: y[%zu] is %g, expected %g", name, i, k,
                 got, e);
    }
    PALM_CHECK(wide_y[count] == 77.f && short_y[count].bits == 77, "%s: wrote past the end", name);
  }
}

}  // namespace

int main() {
#define PALM_BF16_ISA(isa, need)                 \
  if (runs_here(need)) check_narrow(#isa, need); \
  else std::printf("skip %s\n", #isa);
#include "base/bf16_isas.inc"
#undef PALM_BF16_ISA
#define PALM_ISA(isa, need)               \
  if (runs_here(need)) check(#isa, need); \
  else std::printf("skip %s\n", #isa);
#include "base/isas.inc"
#undef PALM_ISA
}
