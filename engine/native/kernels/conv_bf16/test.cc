// Every way of convolving in numbers of base/bf16.h, against a loop. Inputs and weights are such
// that these hold them exactly, so all that may differ is the order of the sums and the rounding of
// y: half a step, 2^-8 of it at most for bfloat16 and 2^-11 for float16.
#include <cmath>
#include <limits>

#include "base/bf16.h"
#include "base/check.h"
#include "kernels/conv/conv.h"
#include "kernels/conv/conv_case.h"
#include "kernels/winograd_bf16/winograd_bf16.h"

namespace {

using namespace palm;
using Narrow = std::vector<Bf16>;

constexpr double kRounding = kNarrow == DType::kFloat16 ? 1.0 / 2048 : 1.0 / 256;

struct Case : ConvCase {
  bool narrow_x, narrow_z, narrow_y;
};

// Numbers that are held exactly.
Vector numbers(Random& random, size_t count, float scale = 1.f) {
  Vector v = random.floats(count, scale);
  for (float& x : v) x = widen(narrow(x));
  return v;
}

// One more than `count` numbers, all untouched.
struct Output {
  Output(size_t count, bool narrow) : floats(count + 1, 77.f), halves(count + 1, Bf16{0x4242}) {
    is_narrow = narrow;
  }
  void* data() { return is_narrow ? static_cast<void*>(halves.data()) : floats.data(); }
  float operator[](size_t i) const { return is_narrow ? widen(halves[i]) : floats[i]; }
  bool is_end_untouched() const {
    return is_narrow ? halves.back().bits == 0x4242 : floats.back() == 77.f;
  }
  Vector floats;
  Narrow halves;
  bool is_narrow;
};

// What rounding both factors of each product may change in each sum, with Winograd's
// F(4,3): y = A' [(G w G') (B' x B)] A, so what two roundings do to each product counts as much
// as the product times A's coefficients.
std::vector<double> winograd_bounds(const Case& c, const Vector& x, const Vector& w) {
  constexpr size_t kPatch = WinogradBf16::kPatch, kTile = WinogradBf16::kTile;
  constexpr double p = WinogradBf16::kP, q = WinogradBf16::kQ, pp = p * p, qq = q * q;
  constexpr double kA[kTile][kPatch] = {{1, 1, 1, 1, 1, 0},
                                        {0, p, p, q, q, 0},
                                        {0, pp, pp, qq, qq, 0},
                                        {0, pp * p, pp * p, qq * q, qq * q, 1}};
  constexpr double kB[kPatch][kPatch] = {
      {pp * qq, 0, -pp - qq, 0, 1, 0}, {0, -qq * p, -qq, p, 1, 0}, {0, qq * p, -qq, -p, 1, 0},
      {0, -pp * q, -pp, q, 1, 0},      {0, pp * q, -pp, -q, 1, 0}, {0, pp * qq, 0, -pp - qq, 0, 1}};
  const size_t oh = c.out_height(), ow = c.out_width(), out = c.out(), in = c.in();
  std::vector<double> bounds(c.images * oh * ow * out);
  if (c.groups > 1 || c.kernel_height != 3 || c.kernel_width != 3) return bounds;
  Vector weights(36 * in);
  for (size_t m = 0; m < out; ++m) {
    winograd_bf16_weights(w.data() + m * 9 * in, in, weights.data(), in);
    for (size_t at = 0; at < c.images * oh * ow; ++at) {
      const size_t oy = at / ow % oh, ox = at % ow, image = at / ow / oh;
      if (oy % kTile || ox % kTile) continue;
      double sizes[kPatch][kPatch] = {};
      for (size_t i = 0; i < in; ++i) {
        double rows[kPatch][kPatch] = {};
        for (size_t y = 0; y < kPatch; ++y) {
          for (size_t xx = 0; xx < kPatch; ++xx) {
            const size_t iy = oy + y - c.top, ix = ox + xx - c.left;
            if (iy >= c.height || ix >= c.width) continue;
            const double v =
                static_cast<double>(x[((image * c.height + iy) * c.width + ix) * in + i]);
            for (size_t k = 0; k < kPatch; ++k) rows[k][xx] += kB[k][y] * v;
          }
        }
        for (size_t k = 0; k < kPatch; ++k) {
          for (size_t l = 0; l < kPatch; ++l) {
            double v = 0;
            for (size_t xx = 0; xx < kPatch; ++xx) v += kB[l][xx] * rows[k][xx];
            sizes[k][l] += std::fabs(v * static_cast<double>(weights[(k * kPatch + l) * in + i]));
          }
        }
      }
      for (size_t y = 0; y < kTile && oy + y < oh; ++y) {
        for (size_t xx = 0; xx < kTile && ox + xx < ow; ++xx) {
          double sum = 0;
          for (size_t k = 0; k < kPatch; ++k)
            for (size_t l = 0; l < kPatch; ++l) sum += kA[y][k] * kA[xx][l] * sizes[k][l];
          bounds[((image * oh + oy + y) * ow + ox + xx) * out + m] =
              2 * kRounding * sum / static_cast<double>(WinogradBf16::kScale);
        }
      }
    }
  }
  return bounds;
}

bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

// The kernel's own choice and every algorithm that suits the shape. If `odd`, one element of x is
// that, NaN or infinite; all of them are up to `size`.
void check(const char* isa_name, uint32_t isa, const Case& c, Random& random, float odd = 0,
           float size = 1) {
  const size_t oh = c.out_height(), ow = c.out_width(), out = c.out(), count = c.count();
  Vector x = numbers(random, c.images * c.height * c.width * c.in(), size);
  if (odd != 0) x[random.bits() % x.size()] = odd;
  const Vector w = numbers(random, out * c.depth(), 2.f / std::sqrt(static_cast<float>(c.depth())));
  const Vector bias = random.floats(out), slope = random.floats(out);
  const Vector z = numbers(random, count / out * c.residual_channels);
  const Narrow narrow_x = narrow_all(x), narrow_z = narrow_all(z);
  OneStep step("conv");
  const std::vector<size_t> x_shape{c.images, c.height, c.width, c.in()};
  const std::vector<size_t> z_shape{c.images, oh, ow, c.residual_channels};
  c.narrow_x ? step.input(kNarrow, x_shape, narrow_x) : step.input(x_shape, x);
  step.input({out, c.kernel_height, c.kernel_width, c.group_in}, w, true);
  c.bias ? step.input({out}, bias, true) : step.no_input();
  c.is("prelu") ? step.input({out}, slope, true) : step.no_input();
  if (c.residual_channels)
    c.narrow_z ? step.input(kNarrow, z_shape, narrow_z) : step.input(z_shape, z);
  step.output(c.narrow_y ? kNarrow : DType::kFloat32, {c.images, oh, ow, out});
  c.set_attrs(step);
  step.attr("precision", std::string(name_of(kNarrow)));
  OneStep wide = step.in_wider_pixels(random);
  const std::vector<double> expected = c.expect(x, w, bias, slope, z);
  const std::vector<double> winograd = winograd_bounds(c, x, w);
  for (const Candidate& each : conv_candidates(step.node(isa))) {
    const std::string& algorithm = each.algorithm;
    const bool is_winograd = algorithm.find("winograd") == 0;
    // What is infinite or no number spreads over a tile.
    if (is_winograd && odd != 0) continue;
    step.attr("algorithm", algorithm);
    Output y(count, c.narrow_y), y3(count, c.narrow_y);
    step.make(isa, 1).run(std::vector<void*>{y.data()});
    for (size_t i = 0; i < count; ++i) {
      const double e = expected[i], got = static_cast<double>(y[i]);
      const double rounding = c.narrow_y ? std::fabs(e) * kRounding : 0;
      const double products = is_winograd ? 1.5 * winograd[i] : 0;  // 1.5: of hard_swish
      const double bound =
          2e-5 * std::fmax(static_cast<double>(size), std::fabs(e)) + rounding + 1.01 * products;
      PALM_CHECK(same(got, e) || std::fabs(got - e) <= bound,
                 "%s: %s, narrow %d %d %d, algorithm %s: y[%zu] is %g, expected %g", isa_name,
                 c.text().c_str(), c.narrow_x, c.narrow_z, c.narrow_y, algorithm.c_str(), i, got,
                 e);
    }
    PALM_CHECK(y.is_end_untouched(), "%s: %s: wrote past the end", isa_name, algorithm.c_str());
    step.make(isa, 3).run(std::vector<void*>{y3.data()});
    for (size_t i = 0; i < count; ++i) {
      PALM_CHECK(same(static_cast<double>(y[i]), static_cast<double>(y3[i])),
                 "%s: %s: 3 threads give another result", isa_name, algorithm.c_str());
    }
    wide.attr("algorithm", algorithm).make(isa, 3);
    PALM_CHECK(c.narrow_y ? wide.writes(y.halves) : wide.writes(y.floats),
               "%s: %s, algorithm %s: channels of wider pixels are not the same", isa_name,
               c.text().c_str(), algorithm.c_str());
  }
}

[[maybe_unused]] void check(const char* isa_name, uint32_t isa) {
  constexpr const char* kActivations[] = {"", "clip", "prelu", "hard_swish"};
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  Random random;
  const auto pick = [&](std::initializer_list<size_t> from) {
    return from.begin()[random.bits() % from.size()];
  };
  const auto coin = [&] { return random.bits() % 2 == 0; };
  for (size_t i = 0; i < trials(500); ++i) {
    Case c{};
    const bool depthwise = i % 3 == 0;
    c.images = pick({1, 1, 2});
    c.groups = depthwise ? random.between(2, 70) : pick({1, 1, 1, 2, 3});
    c.group_in = depthwise ? 1 : random.between(1, 40);
    c.group_out = depthwise ? pick({1, 1, 2, 3}) : random.between(1, 70);
    c.kernel_height = c.kernel_width = pick({1, 2, 3, 5, 7});
    if (i % 7 == 0) c.kernel_width = pick({1, 2, 3});
    c.stride_y = c.stride_x = pick({1, 1, 2, 3});
    if (i % 11 == 0) c.stride_x = pick({1, 2, 3});
    c.dilation_y = pick({1, 1, 1, 2});
    c.dilation_x = pick({1, 1, 1, 2});
    c.top = random.bits() % c.kernel_height, c.left = random.bits() % c.kernel_width;
    c.bottom = random.bits() % c.kernel_height, c.right = random.bits() % c.kernel_width;
    const size_t most = i % 5 == 0 ? 2 : 22;
    c.height = random.between(1, most), c.width = random.between(1, most);
    c.make_room();
    if (i % 10 == 4) {
      c.groups = c.stride_y = c.stride_x = c.dilation_y = c.dilation_x = 1;
      c.kernel_height = c.kernel_width = 3, c.top %= 3, c.left %= 3, c.bottom %= 3, c.right %= 3;
      c.group_in = 32 + i % 7 * 2, c.group_out = random.between(32, 70);
      if (c.height < 3) c.height = 3;
      if (c.width < 3) c.width = 3;
    }
    c.residual_channels = pick({0, 0, 1, 2}) * c.out() / 2;
    c.bias = random.bits() % 4 != 0;
    c.narrow_x = i % 4 != 1, c.narrow_z = coin(), c.narrow_y = i % 4 != 2;
    c.activation = kActivations[random.bits() % 4];
    const float odd = i % 9 ? 0 : coin() ? kInfinity : std::nanf("");
    if (odd != 0) c.activation = "", c.residual_channels = 0;
    check(isa_name, isa, c, random, odd);
  }
  // Numbers as large as float16 has them.
  check(isa_name, isa,
        {{1, 13, 14, 1, 40, 40, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 0, true, ""}, true, true, false},
        random, 0, 65504);
  // Two groups of one channel, each of which takes the room of two in a GEMM.
  check(isa_name, isa,
        {{1, 4, 12, 2, 1, 3, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, true, ""}, true, true, false}, random);
  // Every number of columns and rows of a GEMM's tiles.
  for (size_t n = 1; n <= 70; n += trial_step()) {
    for (size_t width : {1, 3, 6, 14, 19, 35}) {
      check(isa_name, isa,
            {{1, 1, width, 1, 1 + n % 5, n, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, n % 3 ? 0 : n, true,
              kActivations[n % 3]},
             true,
             n % 2 == 0,
             n % 4 != 0},
            random);
    }
  }
  // Few columns, whose rows lie without anything between them.
  for (size_t n : {4, 8}) {
    for (const char* activation : kActivations) {
      for (size_t added : {size_t{0}, n / 2, n}) {
        for (size_t width : {1, 7, 16, 35}) {
          check(isa_name, isa,
                {{1, 1, width, 1, 6, n, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, added, coin(), activation},
                 true,
                 coin(),
                 coin()},
                random);
        }
      }
    }
  }
  // Every number of channels of a depthwise one, at the edge and inside.
  for (size_t channels = 2; channels <= 50; channels += trial_step()) {
    for (size_t kernel : {3, 5}) {
      for (size_t stride : {1, 2}) {
        const size_t pad = kernel / 2, size = 9 + channels % 5;
        check(isa_name, isa,
              {{1, size, size + 1, channels, 1, 1, kernel, kernel, stride, stride, 1, 1, pad, pad,
                pad, pad, 0, true, "clip"},
               true,
               true,
               true},
              random);
      }
    }
  }
}

}  // namespace

int main() {
#define PALM_KERNEL(need, name)            \
  if (runs_here(need)) check(#name, need); \
  else std::printf("skip %s\n", #name);
#include "kernels/gemm_bf16/kernels.inc"
#undef PALM_KERNEL
}
