#include "base/check.h"
#include "base/one_step.h"

namespace {

using namespace palm;

void check(const char* name, uint32_t isa) {
  Random random;
  for (int trial = 0; trial < 50; ++trial) {
    const size_t group = trial % 3 ? 1 : 2;
    const size_t c = group * random.between(1, 9), m = group * random.between(1, 20);
    size_t kernel[3], stride[3], dilation[3], in[3], out[3];
    for (int i = 0; i < 3; ++i) {
      kernel[i] = random.between(1, 3), stride[i] = random.between(1, 2);
      dilation[i] = random.between(1, 2);
      in[i] = (kernel[i] - 1) * dilation[i] + random.between(1, 5);
      out[i] = (in[i] - (kernel[i] - 1) * dilation[i] - 1) / stride[i] + 1;
    }
    const size_t taps = kernel[0] * kernel[1] * kernel[2], cg = c / group;
    const size_t count = 2 * out[0] * out[1] * out[2] * m;
    const Vector x = random.floats(2 * in[0] * in[1] * in[2] * c);
    const Vector w = random.floats(m * taps * cg, 0.3f), bias = random.floats(m);
    Vector y(count + 1, 77.f), y3(count + 1, 77.f);
    OneStep step("volume_conv");
    step.input({2, in[0], in[1], in[2], c}, x);
    step.input({m, kernel[0], kernel[1], kernel[2], cg}, w, true).input({m}, bias, true);
    step.output({2, out[0], out[1], out[2], m}).attr("group", static_cast<int64_t>(group));
    step.attr("strides", Ints(stride, stride + 3)).attr("dilations", Ints(dilation, dilation + 3));
    step.attr("activation", std::string("clip")).attr("activation_params", Floats{0, 6});
    step.make(isa, 1).run(y.data(), count);
    step.make(isa, 3).run(y3.data(), count);
    for (size_t i = 0; i < count; ++i) {
      const size_t o = i % m, pixel = i / m;
      const size_t at[3] = {pixel / out[2] / out[1] % out[0], pixel / out[2] % out[1],
                            pixel % out[2]};
      const size_t image = pixel / out[2] / out[1] / out[0];
      double sum = bias[o];
      for (size_t t = 0; t < taps; ++t) {
        const size_t tap[3] = {t / kernel[2] / kernel[1], t / kernel[2] % kernel[1], t % kernel[2]};
        size_t from = image;
        for (int d = 0; d < 3; ++d) from = from * in[d] + at[d] * stride[d] + tap[d] * dilation[d];
        for (size_t k = 0; k < cg; ++k)
          sum += static_cast<double>(w[(o * taps + t) * cg + k]) *
                 x[from * c + o / (m / group) * cg + k];
      }
      const double expected = sum < 0 ? 0 : sum > 6 ? 6 : sum;
      PALM_CHECK(is_close(y[i], expected, 1e-5), "%s: y[%zu] is %g, expected %g", name, i, y[i],
                 expected);
    }
    PALM_CHECK(y[count] == 77.f, "%s: wrote past the end", name);
    PALM_CHECK(y == y3, "%s: 3 threads give another result", name);
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
