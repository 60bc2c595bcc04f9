#include <cmath>

#include "base/check.h"
#include "base/one_step.h"
#include "kernels/quantize/quantize.h"

namespace {

using namespace palm;

double level(double x, float scale, double zero, double low, double high) {
  const double q = std::nearbyint(static_cast<float>(x) / scale) + zero;
  return std::isnan(q) || q < low ? low : q > high ? high : q;
}

void check_sizes(const char* name, QuantizeFn run) {
  Random random;
  for (size_t n = 0; n <= 70; ++n) {
    Vector x = random.floats(n + 1, 20.f), y(n + 1, 77.f);
    if (n > 4) x[0] = NAN, x[1] = INFINITY, x[2] = -INFINITY, x[3] = 0.05f;
    run(n, x.data(), 0.1f, 3.f, -128.f, 127.f, y.data());
    for (size_t i = 0; i < n; ++i) {
      const double expected = (level(x[i], 0.1f, 3, -128, 127) - 3) * 0.1f;
      PALM_CHECK(is_close(y[i], expected, 1e-6), "%s: %g is %g, expected %g", name, x[i], y[i],
                 expected);
    }
    PALM_CHECK(y[n] == 77.f, "%s: wrote past n=%zu", name, n);
    Vector in_place = x;
    run(n, in_place.data(), 0.1f, 3.f, -128.f, 127.f, in_place.data());
    for (size_t i = 0; i < n; ++i) PALM_CHECK(in_place[i] == y[i], "%s: in place", name);
  }
}

// One scale for all, and one for each element of an axis.
template <class T>
void check_steps(DType dtype, double low, double high, uint32_t isa) {
  Random random;
  for (bool per_axis : {false, true}) {
    const size_t scales = per_axis ? 5 : 1, count = 3 * 5 * 7;
    Vector x = random.floats(count, 30.f), scale = random.floats(scales);
    for (float& v : scale) v = 0.05f + std::fabs(v) * 0.2f;
    x[1] = 1e9f, x[2] = -1e9f;
    std::vector<T> zero, q(count + 1, T{77});
    for (size_t i = 0; i < scales; ++i) zero.push_back(static_cast<T>(3 + i));
    const auto finish = [&](OneStep& one, const char* op) -> OneStep& {
      one.input({scales}, scale, true).input(dtype, {scales}, zero, true);
      one.attr("outer", int64_t{3}).attr("axis", int64_t{5}).attr("inner", int64_t{7});
      return one.attr("op", std::string(op));
    };
    OneStep forward("quantize"), back("quantize"), both("quantize");
    forward.input({count}, x);
    finish(forward, "quantize").output(dtype, {count}).make(isa, 2).run({q.data()});
    PALM_CHECK(q[count] == T{77}, "%s: wrote past the end", name_of(dtype));
    const std::vector<T> levels(q.begin(), q.end() - 1);
    Vector y(count + 1, 77.f), z(count + 1, 77.f);
    back.input(dtype, {count}, levels);
    finish(back, "dequantize").output({count}).make(isa, 2).run(y.data(), count);
    both.input({count}, x);
    finish(both, "round_trip").output({count}).attr("dtype", std::string(name_of(dtype)));
    both.make(isa, 2).run(z.data(), count);
    for (size_t i = 0; i < count; ++i) {
      const size_t k = per_axis ? i / 7 % 5 : 0;
      const double expected = level(x[i], scale[k], zero[k], low, high);
      PALM_CHECK(static_cast<double>(q[i]) == expected, "%s: %g became %g, expected %g",
                 name_of(dtype), x[i], static_cast<double>(q[i]), expected);
      const double value = (expected - zero[k]) * scale[k];
      PALM_CHECK(is_close(y[i], value, 1e-6) && z[i] == y[i], "%s: back to %g and %g for %g",
                 name_of(dtype), y[i], z[i], value);
    }
    PALM_CHECK(y[count] == 77.f && z[count] == 77.f, "%s: wrote past the end", name_of(dtype));
  }
}

void check_all_steps(uint32_t isa) {
  check_steps<int8_t>(DType::kInt8, -128, 127, isa);
  check_steps<uint8_t>(DType::kUint8, 0, 255, isa);
  check_steps<int16_t>(DType::kInt16, -32768, 32767, isa);
  check_steps<uint16_t>(DType::kUint16, 0, 65535, isa);
}

}  // namespace

int main() {
#define PALM_KERNEL(need, name)                                         \
  if (runs_here(need)) check_sizes(#name, name), check_all_steps(need); \
  else std::printf("skip %s\n", #name);
#include "kernels/quantize/kernels.inc"
#undef PALM_KERNEL
}
