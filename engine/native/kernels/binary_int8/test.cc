#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/one_step.h"
#include "kernels/binary_int8/binary_int8.h"

namespace {

using namespace palm;

uint8_t expected(const BinaryInt8& op, uint8_t a, uint8_t b) {
  const float u = static_cast<float>(a - op.a_zero), v = static_cast<float>(b - op.b_zero);
  float y;
  if (op.mul) {
    y = u * v * op.a_scale;
  } else {
    volatile const float left = u * op.a_scale, right = v * op.b_scale;
    y = left + right;
  }
  y = std::min(std::max(y, op.to.low), op.to.high);
  return static_cast<uint8_t>(static_cast<int32_t>(std::nearbyint(y)) + op.to.zero);
}

void check_sizes(const char* name, BinaryInt8Fn run) {
  Random random;
  const auto byte = [&] { return static_cast<uint8_t>(random.between(0, 255)); };
  for (size_t n = 0; n <= 140; ++n) {
    for (int kind = 0; kind < 8; ++kind) {
      const int32_t zero = byte(), low = byte() / 2;
      BinaryInt8 op{kind % 2 == 1, byte(), byte(),           kind % 2 ? 0.013f : 0.83f,
                    -1.27f,        {},     kind & 2 ? 1 : 0, kind & 4 ? 1 : 0};
      op.to = {static_cast<float>(low - zero), static_cast<float>(240 - zero), zero};
      std::vector<uint8_t> a, b, y(n + 1, 77);
      for (size_t i = 0; i <= n; ++i) a.push_back(byte()), b.push_back(byte());
      run(op, n, a.data(), b.data(), y.data());
      for (size_t i = 0; i < n; ++i) {
        const uint8_t wanted = expected(op, a[op.a_step ? i : 0], b[op.b_step ? i : 0]);
        PALM_CHECK(y[i] == wanted, "%s: n=%zu kind %d: %d, expected %d", name, n, kind, y[i],
                   wanted);
      }
      PALM_CHECK(y[n] == 77, "%s: wrote past n=%zu", name, n);
    }
  }
}

// Rows of channels that all meet the same row.
void check_step(uint32_t isa) {
  Random random;
  std::vector<uint8_t> a, b, y(6 * 19 + 1, 77);
  for (size_t i = 0; i < 6 * 19; ++i) a.push_back(static_cast<uint8_t>(random.between(0, 255)));
  for (size_t i = 0; i < 19; ++i) b.push_back(static_cast<uint8_t>(random.between(0, 255)));
  OneStep step("binary_int8");
  step.input(DType::kUint8, {6, 19}, a).input(DType::kUint8, {19}, b);
  step.attr("op", std::string("mul")).attr("a_scale", 0.01).attr("a_zero", int64_t{3});
  step.attr("b_zero", int64_t{200}).attr("y_zero", int64_t{128}).attr("shape", Ints{6, 19});
  step.attr("a_strides", Ints{19, 1}).attr("b_strides", Ints{0, 1});
  step.output(DType::kUint8, {6, 19}).make(isa, 2).run({y.data()});
  const BinaryInt8 op{true, 3, 200, 0.01f, 0, {-128, 127, 128}, 1, 1};
  for (size_t i = 0; i < a.size(); ++i)
    PALM_CHECK(y[i] == expected(op, a[i], b[i % 19]), "binary_int8: element %zu", i);
  PALM_CHECK(y.back() == 77, "binary_int8: wrote past the end");
}

}  // namespace

int main() {
#define PALM_KERNEL(need, name)                                    \
  if (runs_here(need)) check_sizes(#name, name), check_step(need); \
  else std::printf("skip %s\n", #name);
#include "kernels/binary_int8/kernels.inc"
#undef PALM_KERNEL
}
