#include <cmath>

#include "base/check.h"
#include "base/one_step.h"

namespace {

using namespace palm;

void check(const char* isa_name, uint32_t isa) {
  Random random;
  for (size_t channels = 1; channels <= 70; ++channels) {
    // Windows side by side, their places all in them or not; or windows that overlap.
    const bool apart = channels % 3 != 0, inside = channels % 3 == 1;
    const size_t kernel = 1 + channels % 4 % 3, side = 4;
    const size_t stride = apart ? kernel : 1 + channels % 4 / 2;
    const size_t begin = apart ? 0 : channels % 2, out = side * kernel,
                 count = 2 * out * out * channels;
    const Vector x = random.floats(2 * side * side * channels);
    Vector places;
    for (size_t i = 0; i < x.size(); ++i) {
      const size_t k = random.between(0, inside ? kernel * kernel - 1 : kernel * kernel + 1);
      places.push_back(static_cast<float>(k) + 0.1f - (inside || i % 9 ? 0.f : 2.f));
    }
    if (!inside) places[0] = NAN, places[1] = INFINITY;
    Vector y(count + 1, 77.f), expected(count, 0.f);
    const auto twice = [](size_t v) { return Ints(2, static_cast<int64_t>(v)); };
    OneStep step("max_unpool");
    step.input({2, side, side, channels}, x).input({2, side, side, channels}, places);
    step.output({2, out, out, channels}).attr("kernel", twice(kernel));
    step.attr("strides", twice(stride)).attr("begins", twice(begin));
    step.make(isa, 2).run(y.data(), count);
    for (size_t i = 0; i < x.size(); ++i) {
      const size_t c = i % channels, column = i / channels % side;
      const size_t row = i / channels / side % side, n = i / channels / side / side;
      if (std::isinf(places[i])) continue;
      const int index = std::isnan(places[i]) ? 0 : static_cast<int>(std::trunc(places[i]));
      const int k = static_cast<int>(kernel), down = index / k, right = index % k;
      const int oy = static_cast<int>(row * stride) - static_cast<int>(begin) + down;
      const int ox = static_cast<int>(column * stride) - static_cast<int>(begin) + right;
      const int size = static_cast<int>(out);
      if (oy < 0 || ox < 0 || oy >= size || ox >= size) continue;
      const size_t pixel = (n * out + static_cast<size_t>(oy)) * out + static_cast<size_t>(ox);
      expected[pixel * channels + c] = x[i];
    }
    for (size_t i = 0; i < count; ++i)
      PALM_CHECK(y[i] == expected[i], "%s: %zu channels: y[%zu] is %g, expected %g", isa_name,
                 channels, i, y[i], expected[i]);
    PALM_CHECK(y[count] == 77.f, "wrote past the end");
  }
}

// Images of bfloat16 give what float gives, rounded.
[[maybe_unused]] void check_narrow(const char* name, uint32_t isa) {
  Random random;
  for (size_t channels = 1; channels <= 100; ++channels) {
    const size_t kernel = 1 + channels % 3, side = 4, out = side * kernel;
    const std::vector<Bf16> x = narrow_all(random.floats(2 * side * side * channels));
    Vector at;
    for (size_t i = 0; i < x.size(); ++i)
      at.push_back(static_cast<float>(random.between(0, kernel * kernel - 1)) + 0.1f);
    const int odd = static_cast<int>(channels % 6);
    if (odd == 1) at[0] = NAN;
    if (odd == 2) at[at.size() / 2] = static_cast<float>(kernel * kernel);
    if (odd == 3) at[at.size() - 1] = -1.f;
    const std::vector<Bf16> places = narrow_all(at);
    const Vector wide_x = widen_all(x), wide_places = widen_all(places);
    const std::vector<size_t> in_shape{2, side, side, channels}, out_shape{2, out, out, channels};
    const size_t count = 2 * out * out * channels;
    Vector y(count);
    std::vector<Bf16> got(count + 1, Bf16{77});
    const auto run = [&](OneStep& step, void* to) {
      step.attr("kernel", Ints(2, static_cast<int64_t>(kernel)));
      step.attr("strides", Ints(2, static_cast<int64_t>(kernel)));
      step.make(isa, 1 + channels % 3).run(std::vector<void*>{to});
    };
    OneStep wide("max_unpool"), narrow("max_unpool");
    wide.input(in_shape, wide_x).input(in_shape, wide_places).output(out_shape);
    narrow.input(kNarrow, in_shape, x).input(kNarrow, in_shape, places);
    narrow.output(kNarrow, out_shape);
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
#define PALM_ISA(isa, need)               \
  if (runs_here(need)) check(#isa, need); \
  else std::printf("skip %s\n", #isa);
#include "base/isas.inc"
#undef PALM_ISA
}
