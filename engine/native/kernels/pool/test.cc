#include <cmath>

#include "base/check.h"
#include "base/one_step.h"
#include "kernels/pool/pool.h"

namespace {

using namespace palm;

void check_sizes(const char* name, PoolFn run) {
  Random random;
  for (size_t n = 0; n <= 70; ++n) {
    for (size_t taps : {1, 2, 9}) {
      const size_t step = n + 1, pixels = 3;
      const Vector x = random.floats(taps * pixels * step);
      std::vector<const float*> from;
      for (size_t t = 0; t < taps; ++t) from.push_back(x.data() + t * pixels * step);
      for (bool max : {true, false}) {
        Vector y(pixels * n + 1, 77.f);
        run(max, taps, pixels, n, from.data(), step, 0.25f, y.data());
        for (size_t i = 0; i < pixels * n; ++i) {
          double expected = max ? -INFINITY : 0;
          for (const float* tap : from) {
            const double v = tap[i / n * step + i % n];
            expected = max ? std::fmax(expected, v) : expected + v;
          }
          if (!max) expected *= 0.25;
          PALM_CHECK(is_close(y[i], expected, 1e-6), "%s: n=%zu: %g for %g", name, n, y[i],
                     expected);
        }
        PALM_CHECK(y.back() == 77.f, "%s: wrote past n=%zu", name, n);
      }
    }
  }
  const float values[3] = {1.f, NAN, 2.f};
  const float* const taps[3] = {values, values + 1, values + 2};
  float y = 0;
  run(true, 3, 1, 1, taps, 1, 1.f, &y);
  PALM_CHECK(std::isnan(y), "%s: the maximum lost a NaN", name);
}

// Whole images against a loop.
void check_images(const char* name, uint32_t isa) {
  Random random;
  for (int i = 0; i < 120; ++i) {
    const size_t kernel_y = random.between(1, 4), kernel_x = random.between(1, 4);
    const size_t stride_y = random.between(1, 3), stride_x = random.between(1, 3);
    const size_t top = random.between(0, kernel_y - 1), left = random.between(0, kernel_x - 1);
    const size_t height = random.between(4, 12), width = random.between(4, 12);
    const size_t channels = random.between(1, 20);
    const size_t bottom = random.between(0, kernel_y - 1), right = random.between(0, kernel_x - 1);
    const size_t padded_y = height + top + bottom, padded_x = width + left + right;
    // As ceil_mode has it: one window more, if it begins within the image.
    const size_t ceil = random.between(0, 1);
    size_t oh = (padded_y - kernel_y) / stride_y + 1, ow = (padded_x - kernel_x) / stride_x + 1;
    if (ceil && oh * stride_y < height + top) ++oh;
    if (ceil && ow * stride_x < width + left) ++ow;
    const bool max = i % 2, count_pad = i % 4 == 0;
    const Vector x = random.floats(2 * height * width * channels);
    const size_t count = 2 * oh * ow * channels;
    Vector y(count + 1, 77.f);
    const auto ints = [](std::initializer_list<size_t> v) { return Ints(v.begin(), v.end()); };
    OneStep step("pool");
    step.input({2, height, width, channels}, x)
        .output({2, oh, ow, channels})
        .attr("mode", std::string(max ? "max" : "average"))
        .attr("kernel", ints({kernel_y, kernel_x}))
        .attr("strides", ints({stride_y, stride_x}))
        .attr("pads", ints({top, left, bottom, right}))
        .attr("count_include_pad", int64_t{count_pad});
    step.make(isa, 1 + i % 3).run(y.data(), count);
    for (size_t k = 0; k < count; ++k) {
      const size_t c = k % channels, ox = k / channels % ow, oy = k / channels / ow % oh;
      double sum = 0, most = -INFINITY, taps = 0, padded_taps = 0;
      for (size_t dy = 0; dy < kernel_y; ++dy) {
        for (size_t dx = 0; dx < kernel_x; ++dx) {
          const size_t iy = oy * stride_y + dy - top, ix = ox * stride_x + dx - left;
          padded_taps += oy * stride_y + dy < padded_y && ox * stride_x + dx < padded_x;
          if (iy >= height || ix >= width) continue;
          const double v = x[((k / channels / ow / oh * height + iy) * width + ix) * channels + c];
          sum += v, taps += 1, most = std::fmax(most, v);
        }
      }
      const double expected = max ? most : sum / (count_pad ? padded_taps : taps);
      PALM_CHECK(is_close(y[k], expected, 1e-5), "%s: y[%zu] is %g, expected %g", name, k, y[k],
                 expected);
    }
    PALM_CHECK(y[count] == 77.f, "%s: wrote past the end", name);
  }
}

// Images of bfloat16 give what float gives, rounded.
[[maybe_unused]] void check_narrow(const char* name, uint32_t isa) {
  Random random;
  for (size_t channels = 1; channels <= 100; ++channels) {
    const size_t kernel = 1 + channels % 3, size = 4 + channels % 5, out = size - kernel + 1;
    const bool max = channels % 4 != 0;
    Vector x = random.floats(2 * size * size * channels);
    if (channels % 3 == 0)
      for (size_t i = 0; i < x.size(); i += 37) x[i] = i % 2 ? -NAN : NAN;
    if (channels % 3 == 1)
      for (size_t i = 0; i < x.size(); i += 5) x[i] = i % 2 ? -INFINITY : INFINITY;
    const std::vector<Bf16> narrow_x = narrow_all(x);
    x = widen_all(narrow_x);
    const std::vector<size_t> in_shape{2, size, size, channels}, out_shape{2, out, out, channels};
    const size_t count = 2 * out * out * channels;
    Vector y(count);
    std::vector<Bf16> got(count + 1, Bf16{77});
    const auto run = [&](OneStep& step, void* to) {
      step.attr("mode", std::string(max ? "max" : "average"))
          .attr("kernel", Ints(2, static_cast<int64_t>(kernel)));
      step.make(isa, 1 + channels % 3).run(std::vector<void*>{to});
    };
    OneStep wide("pool"), narrow("pool");
    wide.input(in_shape, x).output(out_shape);
    narrow.input(kNarrow, in_shape, narrow_x).output(kNarrow, out_shape);
    run(wide, y.data()), run(narrow, got.data());
    for (size_t i = 0; i < count; ++i)
      PALM_CHECK(is_same(got[i], palm::narrow(y[i])), "%s: %zu channels: y[%zu] is %g for %g", name,
                 channels, i, widen(got[i]), y[i]);
    PALM_CHECK(got[count].bits == 77, "%s: wrote past the end", name);
  }
}

}  // namespace

int main() {
#define PALM_BF16_ISA(isa, need)                 \
  if (runs_here(need)) check_narrow(#isa, need); \
  else std::printf("skip %s\n", #isa);
#include "base/bf16_isas.inc"
#undef PALM_BF16_ISA
#define PALM_KERNEL(need, name)                                             \
  if (runs_here(need)) check_sizes(#name, name), check_images(#name, need); \
  else std::printf("skip %s\n", #name);
#include "kernels/pool/kernels.inc"
#undef PALM_KERNEL
}
