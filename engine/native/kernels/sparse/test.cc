#include <cmath>

#include "base/check.h"
#include "kernels/sparse/sparse.h"

namespace {

using namespace palm;

constexpr float kUntouched = 77.f;

struct Case {
  size_t pixels, in, out, begin, end;
  bool bias, slope, clip, post;
  size_t residual_channels;
};

void twice(const void*, size_t pixels, size_t channels, float* y, size_t stride) {
  for (size_t i = 0; i < pixels; ++i)
    for (size_t m = 0; m < channels; ++m) y[i * stride + m] *= 2;
}

void check(const char* name, const SparseKernel& kernel, const Case& c, Random& random) {
  const size_t x_stride = c.in + 1, y_stride = c.out + 3;
  const Vector x = random.floats((c.pixels - 1) * x_stride + c.in);
  const Vector bias = random.floats(c.out), slope = random.floats(c.out);
  const Vector residual = random.floats(c.pixels * c.residual_channels);
  Vector dense = random.floats(c.out * c.in), lines(c.in * kernel.block.stride);
  Vector y((c.pixels - 1) * y_stride + c.out, kUntouched);
  std::vector<SparseWeight> weights;
  std::vector<uint32_t> ends;
  for (size_t i = 0; i < dense.size(); ++i) {
    const size_t k = i % c.in;
    if (random.bits() % 4) dense[i] = 0;
    else weights.push_back({static_cast<uint32_t>(k * kernel.block.stride), dense[i]});
    if (k + 1 == c.in) ends.push_back(static_cast<uint32_t>(weights.size()));
  }
  Sparse s{c.pixels,       c.in,        c.out,    x.data(), x_stride, lines.data(),
           weights.data(), ends.data(), y.data(), y_stride, {}};
  if (c.bias) s.epilogue.bias = bias.data();
  if (c.slope) s.epilogue.slope = slope.data();
  if (c.clip) s.epilogue.low = -0.5f, s.epilogue.high = 0.25f;
  if (c.post) s.epilogue.post = &twice;
  if (c.residual_channels) {
    s.epilogue.residual = residual.data();
    s.epilogue.residual_stride = s.epilogue.residual_channels = c.residual_channels;
  }
  kernel.gather(s);
  kernel.multiply(s, c.begin, c.end);
  for (size_t i = 0; i < y.size(); ++i) {
    const size_t pixel = i / y_stride, m = i % y_stride;
    if (m < c.begin || m >= c.end) {
      PALM_CHECK(y[i] == kUntouched, "%s: channel %zu of pixel %zu is written", name, m, pixel);
      continue;
    }
    double sum = c.bias ? static_cast<double>(bias[m]) : 0.0;
    for (size_t k = 0; k < c.in; ++k)
      sum +=
          static_cast<double>(x[pixel * x_stride + k]) * static_cast<double>(dense[m * c.in + k]);
    if (m < c.residual_channels)
      sum += static_cast<double>(residual[pixel * c.residual_channels + m]);
    if (c.slope) sum = sum > 0 ? sum : sum * static_cast<double>(slope[m]);
    else if (c.clip) sum = std::fmin(0.25, std::fmax(-0.5, sum));
    if (c.post) sum *= 2;
    PALM_CHECK(is_close(y[i], sum, 2e-5), "%s: %zu pixels, %zu to %zu: y[%zu][%zu] is %g, not %g",
               name, c.pixels, c.in, c.out, pixel, m, static_cast<double>(y[i]), sum);
  }
}

void check(const char* name, const SparseKernel& kernel) {
  Random random;
  for (size_t pixels = 1; pixels <= kernel.block.width; ++pixels) {
    for (int i = 0; i < 8; ++i) {
      Case c{};
      c.pixels = pixels, c.in = random.between(1, 40), c.out = random.between(1, 50);
      c.begin = random.between(0, c.out / 16) * 16;
      if (c.begin == c.out) c.begin = 0;
      c.end = random.between(c.begin + 1, c.out);
      c.bias = random.bits() % 2, c.slope = random.bits() % 2, c.clip = random.bits() % 2;
      c.post = random.bits() % 2,
      c.residual_channels = random.bits() % 2 * random.between(1, c.out);
      check(name, kernel, c, random);
    }
  }
}

}  // namespace

int main() {
#define PALM_KERNEL(need, name)                               \
  if (runs_here(need)) check(#name, palm::find_sparse(need)); \
  else std::printf("skip %s\n", #name);
#include "kernels/sparse/kernels.inc"
#undef PALM_KERNEL
}
