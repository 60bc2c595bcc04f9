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
    for (int kind = 0; kind < 2; ++kind) {
      const int32_t zero = byte(), low = byte() / 2;
      BinaryInt8 op{kind % 2 == 1, byte(), byte(), kind % 2 ? 0.013f : 0.83f, -1.27f, {}};
      op.to = {static_cast<float>(low - zero), static_cast<float>(240 - zero), zero};
      std::vector<uint8_t> a, b, y(n + 1, 77);
      for (size_t i = 0; i <= n; ++i) a.push_back(byte()), b.push_back(byte());
      run(op, n, a.data(), b.data(), y.data());
      for (size_t i = 0; i < n; ++i) {
        const uint8_t wanted = expected(op, a[i], b[i]);
        PALM_CHECK(y[i] == wanted, "%s: n=%zu kind %d: %d, expected %d", name, n, kind, y[i],
                   wanted);
      }
      PALM_CHECK(y[n] == 77, "%s: wrote past n=%zu", name, n);
      run(op, n, a.data(), b.data(), a.data());
      y[n] = a[n];
      PALM_CHECK(a == y, "%s: n=%zu kind %d in place", name, n, kind);
    }
  }
}

// Rows that all meet the same row, rows that meet one number each, and what does not lie side by
// side; narrow, and wider than what is brought side by side at once. In place where that may be.
void check_step(uint32_t isa) {
  Random random;
  for (size_t columns : {1, 16, 19, 64, 513, 1100, 2049}) {
    const size_t rows = 7, count = rows * columns;
    const auto step = static_cast<int64_t>(columns);
    const Ints walks[] = {{step, 1}, {0, 1}, {1, 0}, {0, 0}, {step * 2, 2}};
    std::vector<uint8_t> whole, other;
    for (size_t i = 0; i < count; ++i) whole.push_back(static_cast<uint8_t>(random.bits()));
    for (size_t i = 0; i < 2 * count; ++i) other.push_back(static_cast<uint8_t>(random.bits()));
    for (const Ints& walk : walks) {
      for (bool first : {true, false}) {
        OneStep one("binary_int8");
        const std::vector<uint8_t>&a = first ? whole : other, &b = first ? other : whole;
        one.input(DType::kUint8, {a.size()}, a).input(DType::kUint8, {b.size()}, b);
        one.attr("op", std::string("mul")).attr("a_scale", 0.01).attr("a_zero", int64_t{3});
        one.attr("b_zero", int64_t{200}).attr("y_zero", int64_t{128});
        one.attr("shape", Ints{static_cast<int64_t>(rows), step});
        one.attr("a_strides", first ? Ints{step, 1} : walk);
        one.attr("b_strides", first ? walk : Ints{step, 1});
        std::vector<uint8_t> y(count + 1, 77);
        one.output(DType::kUint8, {count}).make(isa, 2).run({y.data()});
        const BinaryInt8 op{true, 3, 200, 0.01f, 0, {-128, 127, 128}};
        for (size_t i = 0; i < count; ++i) {
          const auto at = static_cast<size_t>(walk[0]) * (i / columns) +
                          static_cast<size_t>(walk[1]) * (i % columns);
          const uint8_t u = first ? a[i] : a[at], v = first ? b[at] : b[i];
          PALM_CHECK(y[i] == expected(op, u, v), "binary_int8: %zu columns: %zu", columns, i);
        }
        PALM_CHECK(y.back() == 77, "binary_int8: wrote past the end");
      }
    }
  }
}

}  // namespace

int main() {
#define PALM_KERNEL(need, name)                                    \
  if (runs_here(need)) check_sizes(#name, name), check_step(need); \
  else std::printf("skip %s\n", #name);
#include "kernels/binary_int8/kernels.inc"
#undef PALM_KERNEL
}
