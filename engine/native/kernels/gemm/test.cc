#include <cmath>

#include "base/check.h"
#include "kernels/gemm/gemm.h"

namespace {

using palm::Gemm;
using palm::Vector;

constexpr float kUntouched = 77.f;

struct Case {
  size_t m, n, k, segments;
  bool bias, slope, residual, clip, post;
};

void twice(const void*, size_t rows, size_t n, float* y, size_t stride) {
  for (size_t i = 0; i < rows; ++i)
    for (size_t j = 0; j < n; ++j) y[i * stride + j] *= 2;
}

void check(const char* name, const palm::GemmKernel& kernel, const Case& c) {
  palm::Random random;
  const size_t lda = c.segments * c.k + 1, ldc = c.n + 3, depth = c.k * c.segments;
  const size_t residual_channels = c.n - c.n / 3;
  const Vector a = random.floats(c.m * lda), b = random.floats(depth * c.n);
  const Vector bias = random.floats(c.n), slope = random.floats(c.n);
  const Vector residual = random.floats(c.m * residual_channels);
  std::vector<const float*> segments;
  for (size_t s = 0; s < c.segments; ++s) segments.push_back(a.data() + s * c.k);
  Vector packed(kernel.pack(depth, c.n, nullptr, c.n, 1, nullptr));
  kernel.pack(depth, c.n, b.data(), c.n, 1, packed.data());
  Vector y(c.m * ldc + 1, kUntouched);
  const size_t panels = kernel.count_panels(c.n);
  Gemm g{c.m,           c.n,      c.k, c.segments, segments.data(), lda,
         packed.data(), y.data(), ldc, 0,          panels,          {}};
  if (c.bias) g.epilogue.bias = bias.data();
  if (c.slope) g.epilogue.slope = slope.data();
  if (c.residual) {
    g.epilogue.residual = residual.data();
    g.epilogue.residual_stride = g.epilogue.residual_channels = residual_channels;
  }
  if (c.clip) g.epilogue.low = -0.5f, g.epilogue.high = 0.25f;
  if (c.post) g.epilogue.post = &twice;
  // What is asked for changes nothing, be it there or not.
  g.next = {reinterpret_cast<const char*>(a.data()), c.m % 3 * 1000000};
  kernel.run(g);
  for (size_t i = 0; i < c.m; ++i) {
    for (size_t j = 0; j < ldc; ++j) {
      const float got = y[i * ldc + j];
      if (j >= c.n) {
        PALM_CHECK(got == kUntouched, "%s: m=%zu n=%zu wrote beyond row %zu", name, c.m, c.n, i);
        continue;
      }
      double sum = c.bias ? bias[j] : 0.0;
      for (size_t p = 0; p < depth; ++p)
        sum += static_cast<double>(a[i * lda + p]) * b[p * c.n + j];
      if (c.residual && j < residual_channels) sum += residual[i * residual_channels + j];
      if (c.slope) sum = sum > 0 ? sum : sum * slope[j];
      else if (c.clip) sum = std::fmin(0.25, std::fmax(-0.5, sum));
      if (c.post) sum *= 2;
      PALM_CHECK(palm::is_close(got, sum, 1e-5), "%s: m=%zu n=%zu k=%zu at %zu, %zu: %g for %g",
                 name, c.m, c.n, c.k, i, j, got, sum);
    }
  }
  PALM_CHECK(y.back() == kUntouched, "%s: wrote past the end", name);

  // Rows and panels apart give the same bits.
  Vector parts(y.size(), kUntouched);
  for (size_t i = 0; i < c.m; i += 5) {
    for (size_t p = 0; p < panels; ++p) {
      Gemm part = g;
      part.m = c.m - i < 5 ? c.m - i : 5;
      std::vector<const float*> from;
      for (const float* s : segments) from.push_back(s + i * lda);
      part.a = from.data();
      part.c = parts.data() + i * ldc;
      part.first_panel = p;
      part.last_panel = p + 1;
      part.epilogue = g.epilogue.from_pixel(i);
      kernel.run(part);
    }
  }
  PALM_CHECK(parts == y, "%s: m=%zu n=%zu k=%zu: parts differ from the whole", name, c.m, c.n, c.k);
}

void check_nan(const char* name, const palm::GemmKernel& kernel) {
  const float a[2] = {NAN, INFINITY}, b = 1.f;
  float packed[64], y[2];
  kernel.pack(1, 1, &b, 1, 1, packed);
  const float* const segment = a;
  Gemm g{2, 1, 1, 1, &segment, 1, packed, y, 1, 0, 1, {}};
  g.epilogue.low = 0, g.epilogue.high = 6;
  kernel.run(g);
  PALM_CHECK(std::isnan(y[0]) && y[1] == 6.f, "%s: NaN, inf became %g, %g", name, y[0], y[1]);
}

void check(const char* name, const palm::GemmKernel& kernel) {
  palm::Random random;
  const auto coin = [&] { return random.bits() % 2 == 0; };
  for (size_t n = 1; n <= 70; ++n) {
    for (size_t m : {0, 1, 2, 3, 5, 7, 13, 16, 17, 31})
      check(name, kernel,
            {m, n, random.between(1, 9), 1 + m % 3, coin(), coin(), coin(), coin(), coin()});
  }
  for (size_t m = 1; m < 40; ++m)
    check(name, kernel, {m, 16 + m % 4 * 15, 33, 2, coin(), coin(), coin(), coin(), false});
  for (size_t n : {80, 96, 100, 120, 128, 130, 200, 1000})
    check(name, kernel, {9, n, 300, 1, true, coin(), coin(), true, false});
  check(name, kernel, {20, 2200, 5, 1, true, false, false, true, false});
  check_nan(name, kernel);
}

}  // namespace

int main() {
#define PALM_KERNEL(need, name)                                               \
  if (palm::runs_here(palm::need)) check(#name, palm::find_gemm(palm::need)); \
  else std::printf("skip %s\n", #name);
#include "kernels/gemm/kernels.inc"
#undef PALM_KERNEL
}
