#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/one_step.h"

int main() {
  using namespace palm;
  Random random;
  const size_t height = 8, width = 9, bins = 3, regions = 4;
  for (size_t n : {1, 5, 70}) {
    for (int way = 0; way < 8; ++way) {
      const bool max = way & 1, half = way & 2;
      const size_t ratio = way & 4 ? 2 : 0;
      const Vector x = random.floats(2 * height * width * n);
      const Vector rois{0.f,  0.f,  6.f, 7.f, 1.5f, 2.f, 14.f, 9.f,
                        -4.f, -3.f, 3.f, 4.f, 5.f,  5.f, 5.1f, 5.1f};
      const std::vector<int64_t> index{0, 1, 1, 0};
      const size_t count = regions * bins * bins * n;
      const double scale = 0.75, offset = half ? 0.5 : 0;
      Vector y(count + 1, 77.f);
      OneStep step("roi_align");
      step.input({2, height, width, n}, x).input({regions, 4}, rois);
      step.input(DType::kInt64, {regions}, index).output({regions, bins, bins, n});
      step.attr("mode", std::string(max ? "max" : "avg")).attr("offset", offset);
      step.attr("spatial_scale", scale).attr("sampling_ratio", static_cast<int64_t>(ratio));
      step.make(kScalar, 2).run(y.data(), count);
      for (size_t i = 0; i < count; ++i) {
        const size_t c = i % n, bx = i / n % bins, by = i / n / bins % bins,
                     r = i / n / bins / bins;
        const auto at = [&](size_t k) { return rois[r * 4 + k] * scale - offset; };
        double w = at(2) - at(0), h = at(3) - at(1);
        if (!half) w = std::fmax(w, 1), h = std::fmax(h, 1);
        w /= bins, h /= bins;
        const auto samples = [&](double bin) {
          return ratio ? ratio : static_cast<size_t>(std::fmax(1, std::ceil(bin)));
        };
        const size_t ny = samples(h), nx = samples(w);
        double sum = 0, most = -INFINITY;
        for (size_t k = 0; k < ny * nx; ++k) {
          const double y0 = at(1) + (static_cast<double>(by) + (static_cast<double>(k / nx) + 0.5) /
                                                                   static_cast<double>(ny)) *
                                        h;
          const double x0 = at(0) + (static_cast<double>(bx) + (static_cast<double>(k % nx) + 0.5) /
                                                                   static_cast<double>(nx)) *
                                        w;
          const bool inside = y0 >= -1 && y0 <= height && x0 >= -1 && x0 <= width;
          const double py = std::fmin(std::fmax(y0, 0), height - 1),
                       px = std::fmin(std::fmax(x0, 0), width - 1);
          for (int corner = 0; corner < 4; ++corner) {
            const double row = std::floor(py) + corner / 2, column = std::floor(px) + corner % 2;
            const double weight =
                inside ? (1 - std::fabs(py - row)) * (1 - std::fabs(px - column)) : 0;
            const size_t iy = std::min(static_cast<size_t>(row), height - 1);
            const size_t ix = std::min(static_cast<size_t>(column), width - 1);
            const double v =
                weight * x[((static_cast<size_t>(index[r]) * height + iy) * width + ix) * n + c];
            sum += v, most = std::fmax(most, v);
          }
        }
        const double expected = max ? most : sum / static_cast<double>(ny * nx);
        PALM_CHECK(is_close(y[i], expected, 1e-5), "n=%zu, way %d: y[%zu] is %g, expected %g", n,
                   way, i, y[i], expected);
      }
      PALM_CHECK(y[count] == 77.f, "wrote past the end");
    }
  }
}
