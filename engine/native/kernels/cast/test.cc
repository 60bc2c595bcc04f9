#include <cmath>

#include "base/check.h"
#include "base/one_step.h"

namespace {

using namespace palm;

template <class From>
void check(DType dtype) {
  std::vector<From> x;
  for (int i = 0; i < 100; ++i) x.push_back(static_cast<From>(i));
  Vector y(101, 77.f);
  OneStep("cast").input(dtype, {100}, x).output({100}).make(kScalar, 2).run(y.data(), 100);
  for (size_t i = 0; i < 100; ++i)
    PALM_CHECK(y[i] == static_cast<float>(i), "%s: %zu became %g", name_of(dtype), i, y[i]);
  PALM_CHECK(y[100] == 77.f, "%s: wrote past the end", name_of(dtype));
}

std::vector<uint16_t> to_half(const std::vector<float>& x) {
  std::vector<uint16_t> y(x.size());
  OneStep step("cast");
  step.input(DType::kFloat32, {x.size()}, x).output(DType::kFloat16, {x.size()});
  step.make(kScalar, 1).run({y.data()});
  return y;
}

// Every half there is goes to float and comes back; the values are those of the definition.
void check_half() {
  std::vector<uint16_t> halves;
  for (uint32_t bits = 0; bits < 65536; ++bits) halves.push_back(static_cast<uint16_t>(bits));
  std::vector<float> wide(halves.size());
  OneStep step("cast");
  step.input(DType::kFloat16, {halves.size()}, halves).output({halves.size()});
  step.make(kScalar, 2).run({wide.data()});
  const std::vector<uint16_t> back = to_half(wide);
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const int exponent = static_cast<int>(bits >> 10 & 31);
    const double fraction = bits & 1023, sign = bits >> 15 ? -1 : 1;
    double value =
        exponent ? std::ldexp(1024 + fraction, exponent - 25) : std::ldexp(fraction, -24);
    if (exponent == 31) value = fraction != 0 ? NAN : INFINITY;
    PALM_CHECK(is_close(wide[bits], sign * value, 0), "half %x is %g", bits, wide[bits]);
    if (!std::isnan(value))
      PALM_CHECK(back[bits] == bits, "half %x came back as %x", bits, back[bits]);
    else PALM_CHECK((back[bits] & 0x7fff) > 0x7c00, "a NaN came back as %x", back[bits]);
  }
  // Halfway between two: to the even one; too large and too small.
  const std::vector<float> x{1.00048828125f, 1.00146484375f, 65519.f,   65520.f,
                             1e-8f,          2.98e-8f,       2.9803e-8f};
  const std::vector<uint16_t> expected{0x3c00, 0x3c02, 0x7bff, 0x7c00, 0, 0, 1};
  PALM_CHECK(to_half(x) == expected, "rounding");
}

}  // namespace

int main() {
  check_half();
  check<double>(DType::kFloat64);
  check<int8_t>(DType::kInt8);
  check<uint8_t>(DType::kUint8);
  check<int16_t>(DType::kInt16);
  check<uint16_t>(DType::kUint16);
  check<int32_t>(DType::kInt32);
  check<uint32_t>(DType::kUint32);
  check<int64_t>(DType::kInt64);
  check<uint64_t>(DType::kUint64);
}
