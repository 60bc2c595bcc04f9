#include <cmath>

#include "base/check.h"
#include "base/one_step.h"

namespace {

using namespace palm;

void check(const char* isa_name, uint32_t isa) {
  Random random;
  for (int trial = 0; trial < 60; ++trial) {
    const size_t kernel = random.between(1, 3), stride = random.between(1, 3);
    const size_t pad = random.between(0, kernel - 1), height = random.between(4, 9);
    const size_t width = random.between(4, 9), channels = random.between(1, 40);
    const size_t oh = (height + 2 * pad - kernel) / stride + 1;
    const size_t ow = (width + 2 * pad - kernel) / stride + 1, count = 2 * oh * ow * channels;
    Vector x = random.floats(2 * height * width * channels);
    for (float& v : x) v = std::nearbyint(v * 4);  // some are equal
    if (trial % 4 == 0) x[7] = NAN;
    Vector y(count + 1, 77.f);
    std::vector<int64_t> indices(count + 1, 77);
    const auto twice = [](size_t v) { return Ints(2, static_cast<int64_t>(v)); };
    OneStep step("max_pool_indices");
    step.input({2, height, width, channels}, x).output({2, oh, ow, channels});
    step.output(DType::kInt64, {2, oh, ow, channels}).attr("kernel", twice(kernel));
    step.attr("strides", twice(stride)).attr("pads", Ints(4, static_cast<int64_t>(pad)));
    step.make(isa, 1 + trial % 3).run({y.data(), indices.data()});
    for (size_t i = 0; i < count; ++i) {
      const size_t c = i % channels, ox = i / channels % ow, oy = i / channels / ow % oh;
      const size_t n = i / channels / ow / oh;
      float best = -INFINITY;
      size_t at = 0;
      bool any = false;
      for (size_t k = 0; k < kernel * kernel; ++k) {
        const size_t iy = oy * stride + k / kernel - pad, ix = ox * stride + k % kernel - pad;
        if (iy >= height || ix >= width) continue;
        const float v = x[((n * height + iy) * width + ix) * channels + c];
        if (any && !(v > best) && !(std::isnan(v) && !std::isnan(best))) continue;
        best = v, any = true;
        at = ((n * channels + c) * height + iy) * width + ix;
      }
      PALM_CHECK(is_close(y[i], best, 0), "%s: y[%zu] is %g, expected %g", isa_name, i, y[i], best);
      PALM_CHECK(indices[i] == static_cast<int64_t>(at), "index %zu", i);
    }
    PALM_CHECK(y[count] == 77.f && indices[count] == 77, "wrote past the end");
    Vector z(count + 1, 77.f), places(count + 1, 77.f);
    OneStep other("max_pool_indices");
    other.input({2, height, width, channels}, x).output({2, oh, ow, channels});
    other.output({2, oh, ow, channels}).attr("kernel", twice(kernel)).attr("in_window", int64_t{1});
    other.attr("strides", twice(stride)).attr("pads", Ints(4, static_cast<int64_t>(pad)));
    other.make(isa, 2).run({z.data(), places.data()});
    for (size_t i = 0; i < count; ++i) {
      if (std::isnan(y[i])) continue;
      const size_t ox = i / channels % ow, oy = i / channels / ow % oh;
      const size_t plane = height * width, pixel = static_cast<size_t>(indices[i]) % plane;
      const size_t tap_y = pixel / width + pad - oy * stride,
                   tap_x = pixel % width + pad - ox * stride;
      PALM_CHECK(z[i] == y[i], "%s: z[%zu] is %g, expected %g", isa_name, i, z[i], y[i]);
      PALM_CHECK(places[i] == static_cast<float>(tap_y * kernel + tap_x) + 0.1f, "place %zu", i);
    }
    PALM_CHECK(z[count] == 77.f && places[count] == 77.f, "wrote past the end");
  }
}

// Images of bfloat16 give what float gives, rounded.
[[maybe_unused]] void check_narrow(const char* name, uint32_t isa) {
  Random random;
  for (size_t channels = 1; channels <= 70; ++channels) {
    const size_t kernel = 1 + channels % 3, size = 4 + channels % 5, out = size - kernel + 1;
    Vector x = random.floats(2 * size * size * channels);
    if (channels % 3 == 0) x[x.size() / 2] = NAN, x[1] = INFINITY, x[3] = -INFINITY;
    const std::vector<Bf16> narrow_x = narrow_all(x);
    x = widen_all(narrow_x);
    const std::vector<size_t> in_shape{2, size, size, channels}, out_shape{2, out, out, channels};
    const size_t count = 2 * out * out * channels;
    Vector y(count), places(count);
    std::vector<Bf16> got(count + 1, Bf16{77}), got_places(count + 1, Bf16{77});
    const auto run = [&](OneStep& step, void* to, void* places_to) {
      step.attr("kernel", Ints(2, static_cast<int64_t>(kernel))).attr("in_window", int64_t{1});
      step.make(isa, 1 + channels % 3).run({to, places_to});
    };
    OneStep wide("max_pool_indices"), narrow("max_pool_indices");
    wide.input(in_shape, x).output(out_shape).output(out_shape);
    narrow.input(kNarrow, in_shape, narrow_x);
    narrow.output(kNarrow, out_shape).output(kNarrow, out_shape);
    run(wide, y.data(), places.data()), run(narrow, got.data(), got_places.data());
    for (size_t i = 0; i < count; ++i) {
      PALM_CHECK(is_same(got[i], palm::narrow(y[i])), "%s: %zu channels: y[%zu] is %g for %g", name,
                 channels, i, widen(got[i]), y[i]);
      PALM_CHECK(std::floor(widen(got_places[i])) == std::floor(places[i]),
                 "%s: place %zu is %g for %g", name, i, widen(got_places[i]), places[i]);
    }
    PALM_CHECK(got[count].bits == 77 && got_places[count].bits == 77, "wrote past the end");
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
