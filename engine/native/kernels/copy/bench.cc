#include "base/bench.h"

#include "base/one_step.h"

int main() {
  using namespace palm;
  constexpr int64_t kPixels = 64 * 64;
  Random random;
  std::printf("GB/s, written, float32\n");
  for (int64_t channels : {3, 24, 64}) {
    const Vector x = random.floats(static_cast<size_t>(kPixels * channels));
    Vector y(x.size());
    const auto time = [&](const char* name, const Ints& shape, const Ints& from, const Ints& to) {
      const std::vector<size_t> sizes(shape.begin(), shape.end());
      OneStep step("copy");
      step.input({x.size()}, x).seen_as(sizes, from, 0);
      step.output({y.size()}).seen_as(sizes, to, 0);
      step.make(host_isa(), 1);
      const double seconds = best_seconds([&] { step.run(y.data(), y.size()); });
      std::printf("%-24s%3lld channels%9.1f\n", name, static_cast<long long>(channels),
                  4e-9 * static_cast<double>(x.size()) / seconds);
    };
    time("planes to pixels", {kPixels, channels}, {1, kPixels}, {channels, 1});
    time("pixels to planes", {channels, kPixels}, {1, channels}, {kPixels, 1});
    time("every other channel", {kPixels, channels / 2}, {channels, 2}, {channels / 2, 1});
  }
}
