// Against kernels/gemm, bit for bit.
#include <cmath>

#include "base/check.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemv_f16/gemv_f16.h"

namespace {

using namespace palm;

constexpr float kUntouched = 77.f;

void twice(const void*, size_t rows, size_t n, float* y, size_t stride) {
  for (size_t i = 0; i < rows; ++i)
    for (size_t j = 0; j < n; ++j) y[i * stride + j] *= 2;
}

// Some of the numbers are below the least normal one of float16. turned: b lies by columns.
void check(const char* name, GemvF16Fn kernel, uint32_t isa, size_t n, size_t k, bool turned,
           Random& random) {
  const size_t row = turned ? 1 : n, column = turned ? k : 1;
  const Vector a = random.floats(k), bias = random.floats(n), slope = random.floats(n);
  Vector b = random.floats(k * n);
  for (float& x : b)
    x = random.bits() % 8 ? std::round(x * 1024) / 1024 : std::round(x * 9) * 0x1p-24f;
  const Arena packed = pack_gemv_f16(k, n, b.data(), row, column);
  PALM_CHECK(packed.data(), "%s: n=%zu k=%zu: not packed", name, n, k);
  const GemmKernel gemm = find_gemm(isa);
  Vector floats(gemm.pack(k, n, nullptr, row, column, nullptr));
  gemm.pack(k, n, b.data(), row, column, floats.data());
  const float* const segment = a.data();
  for (const size_t added : {size_t{0}, n / 2, n}) {
    const Vector z = random.floats(added);
    Epilogue e;
    if (added != n) e.bias = bias.data();
    if (random.bits() % 2) e.slope = slope.data();
    else e.low = -1, e.high = 2;
    if (added) e.residual = z.data(), e.residual_channels = e.residual_stride = added;
    if (n % 3 == 0) e.post = &twice;
    Vector y(n + 1, kUntouched), expected(n);
    const size_t panels = gemm.count_panels(n);
    gemm.run({1, n, k, 1, &segment, k, floats.data(), expected.data(), n, 0, panels, e});
    Pool pool(3, true);
    const auto* const halves = reinterpret_cast<const uint16_t*>(packed.data());
    run_gemv_f16(kernel, {n, k, a.data(), halves, y.data(), e}, pool);
    PALM_CHECK(y[n] == kUntouched, "%s: n=%zu k=%zu: wrote past the end", name, n, k);
    y.pop_back();
    PALM_CHECK(y == expected, "%s: n=%zu k=%zu: other bits than of floats", name, n, k);
  }
  for (const float odd : {0.1f, 65520.f, INFINITY, NAN}) {
    b[random.bits() % b.size()] = odd;
    PALM_CHECK(!pack_gemv_f16(k, n, b.data(), row, column).data(), "%s: took %g", name,
               static_cast<double>(odd));
  }
}

[[maybe_unused]] void check(const char* name, GemvF16Fn kernel, uint32_t isa) {
  Random random;
  for (size_t n = 1; n <= 140; ++n) {
    const size_t k = (64 << 10) / n + 1, width = (n + 63) / 64 * 64;
    if (width <= n + n / 2) check(name, kernel, isa, n, k, n % 2 == 0, random);
    else PALM_CHECK(!pack_gemv_f16(k, n, Vector(k * n).data(), n, 1).data(), "%s: n=%zu", name, n);
  }
  for (size_t n : {500, 1404, 4096}) check(name, kernel, isa, n, 140, true, random);
}

}  // namespace

int main() {
#define PALM_KERNEL(need, name)                              \
  if (palm::runs_here(need)) check(#name, &palm::name, need); \
  else std::printf("skip %s\n", #name);
#include "kernels/gemv_f16/kernels.inc"
#undef PALM_KERNEL
}
