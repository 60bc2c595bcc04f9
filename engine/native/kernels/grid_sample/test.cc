#include <cmath>

#include "base/check.h"
#include "base/one_step.h"

namespace {

using namespace palm;

// Back into 0 .. size - 1 by mirrors at both ends, one fold after another.
double reflect(double p, double low, double high) {
  for (int i = 0; i < 100 && (p < low || p > high); ++i) p = p < low ? 2 * low - p : 2 * high - p;
  return p;
}

double place(double at, double size, const std::string& padding, bool corners, bool linear) {
  double p = corners ? (at + 1) / 2 * (size - 1) : ((at + 1) * size - 1) / 2;
  if (!linear) p = std::nearbyint(p);
  if (padding == "border") p = std::fmin(std::fmax(p, 0), size - 1);
  if (padding == "reflection") {
    p = reflect(p, corners ? 0 : -0.5, corners ? size - 1 : size - 0.5);
    p = std::fmin(std::fmax(p, 0), size - 1);
  }
  return p;
}

}  // namespace

int main() {
  Random random;
  const size_t height = 5, width = 6, points = 40;
  for (size_t n : {1, 3, 17, 70}) {
    const Vector x = random.floats(2 * height * width * n);
    Vector grid = random.floats(2 * points * 2, 1.4f);
    for (float& g : grid) g = std::nearbyint(g * 64) / 64;  // float and double then agree
    for (const char* padding : {"zeros", "border", "reflection"}) {
      for (int way = 0; way < 4; ++way) {
        const bool corners = way & 1, linear = way & 2;
        const size_t count = 2 * points * n;
        Vector y(count + 1, 77.f);
        OneStep step("grid_sample");
        step.input({2, height, width, n}, x).input({2, 1, points, 2}, grid);
        step.output({2, 1, points, n}).attr("padding_mode", std::string(padding));
        step.attr("align_corners", int64_t{corners});
        step.attr("mode", std::string(linear ? "linear" : "nearest"));
        step.make(kScalar, 2).run(y.data(), count);
        for (size_t i = 0; i < count; ++i) {
          const size_t point = i / n;
          const double py = place(grid[2 * point + 1], height, padding, corners, linear);
          const double px = place(grid[2 * point], width, padding, corners, linear);
          double expected = 0;
          for (int k = 0; k < 4; ++k) {
            const double row = std::floor(py) + k / 2, column = std::floor(px) + k % 2;
            const double weight = (1 - std::fabs(py - row)) * (1 - std::fabs(px - column));
            if (row < 0 || row >= height || column < 0 || column >= width || weight == 0) continue;
            const size_t line = point / points * height + static_cast<size_t>(row);
            expected += weight * x[(line * width + static_cast<size_t>(column)) * n + i % n];
          }
          PALM_CHECK(is_close(y[i], expected, 1e-5), "%s, way %d: %g for %g", padding, way, y[i],
                     expected);
        }
        PALM_CHECK(y[count] == 77.f, "wrote past the end");
      }
    }
  }
  // A point that is no number gets nothing, and nothing outside is read.
  const Vector x = random.floats(height * width);
  const Vector grid{NAN, 0.f, INFINITY, 0.f, 0.f, -1e30f};
  Vector y(3, 77.f);
  OneStep step("grid_sample");
  step.input({1, height, width, 1}, x).input({1, 1, 3, 2}, grid).output({1, 1, 3, 1});
  step.attr("mode", std::string("linear")).make(kScalar, 1).run(y.data(), 3);
  for (float v : y) PALM_CHECK(v == 0.f, "a point outside gives %g", v);
}
