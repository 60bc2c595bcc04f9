#include "base/bench.h"

#include "base/one_step.h"

int main() {
  using namespace palm;
  constexpr size_t kSize = 32;
  Random random;
  std::vector<int32_t> lower, upper;
  Vector weight;
  for (size_t i = 0; i < 2 * kSize; ++i) {
    lower.push_back(static_cast<int32_t>(i < 1 ? 0 : (i - 1) / 2));
    upper.push_back(static_cast<int32_t>(i / 2 + 1 < kSize ? (i + 1) / 2 : kSize - 1));
    weight.push_back(i % 2 ? 0.25f : 0.75f);
  }
  bench_header("GB/s, written, 32x32 to 64x64 by");
  for (size_t channels : {1, 16, 64}) {
    const Vector x = random.floats(kSize * kSize * channels);
    Vector y(4 * x.size());
    OneStep step("resize");
    step.input({1, kSize, kSize, channels}, x)
        .input(DType::kInt32, {2 * kSize}, lower, true)
        .input(DType::kInt32, {2 * kSize}, upper, true)
        .input({2 * kSize}, weight, true)
        .input(DType::kInt32, {2 * kSize}, lower, true)
        .input(DType::kInt32, {2 * kSize}, upper, true)
        .input({2 * kSize}, weight, true)
        .output({1, 2 * kSize, 2 * kSize, channels})
        .attr("mode", std::string("linear"));
    bench(std::to_string(channels).c_str(), 4.0 * static_cast<double>(y.size()), [&](uint32_t isa) {
      step.make(isa, 1);
      return [&] { step.run(y.data(), y.size()); };
    });
  }
}
