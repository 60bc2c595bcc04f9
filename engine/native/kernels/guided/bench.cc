#include "base/bench.h"

#include "kernels/guided/guided.h"

int main() {
  using namespace palm;
  constexpr size_t kGrid = 256, kHeight = 480, kWidth = 640, kHalf = kGrid / 2;
  Random random;
  const Vector offset = random.floats(kGrid * kGrid);
  std::vector<uint8_t> image(3 * kHeight * kWidth, 100);
  Vector y(kHeight * kWidth);
  bench_header("GB/s, written, 256x256 to 640x480,");
  for (size_t planes : {0, 1, 3}) {
    const Vector slope = random.floats(kHalf * kHalf, planes ? 1e-3f : 0.f);
    const Rows<const float> grid{slope.data(), kHalf, kHalf, kHalf};
    const Guided guided{{offset.data(), kGrid, kGrid, kGrid},
                        {grid, grid, grid},
                        planes ? planes : 1,
                        {image.data(), kHeight, kWidth, 3 * kWidth},
                        {y.data(), kHeight, kWidth, kWidth}};
    const char* const names[] = {"no slopes", "of brightness", "", "of colours"};
    bench(names[planes], 4.0 * static_cast<double>(y.size()),
          [&](uint32_t isa) { return [&guided, isa] { guided_upsample(isa, guided); }; });
  }
}
