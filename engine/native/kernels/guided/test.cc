#include "kernels/guided/guided.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace {

using namespace palm;

// Grids, a picture and what comes of them, with room behind each row.
struct Case {
  size_t height, width, rows, columns, slope_rows, slope_columns, planes;
};

double bilinear(const Rows<const float>& grid, double y, double x) {
  const auto part = [](double at, size_t length, size_t* low, size_t* high) {
    at = std::min(std::max(at, 0.0), static_cast<double>(length - 1));
    *low = static_cast<size_t>(at);
    *high = std::min(*low + 1, length - 1);
    return at - static_cast<double>(*low);
  };
  size_t top, bottom, left, right;
  const double fy = part(y, grid.height, &top, &bottom), fx = part(x, grid.width, &left, &right);
  const auto line = [&](size_t row) {
    return grid.row(row)[left] * (1 - fx) + static_cast<double>(grid.row(row)[right]) * fx;
  };
  return line(top) * (1 - fy) + line(bottom) * fy;
}

void check(const char* name, uint32_t isa, const Case& c) {
  Random random;
  constexpr size_t kRoom = 5;
  const auto grid = [&](std::vector<Vector>& owner, size_t height, size_t width, float scale) {
    owner.push_back(random.floats(height * (width + kRoom), scale));
    return Rows<const float>{owner.back().data(), height, width, width + kRoom};
  };
  std::vector<Vector> owner;
  owner.reserve(4);
  Guided g{};
  g.offset = grid(owner, c.rows, c.columns, 1.f);
  for (size_t k = 0; k < 3; ++k) {
    g.slopes[k] = grid(owner, c.slope_rows, c.slope_columns, 1e-2f);
    // Most of a grid says nothing.
    for (size_t i = 0; i < owner.back().size(); ++i)
      if (i % (c.slope_columns + kRoom) > c.slope_columns / 3) owner.back()[i] = 0.f;
  }
  g.planes = c.planes;
  std::vector<uint8_t> image(c.height * (3 * c.width + kRoom));
  for (uint8_t& value : image) value = static_cast<uint8_t>(random.bits());
  g.image = {image.data(), c.height, c.width, 3 * c.width + kRoom};
  Vector y(c.height * (c.width + kRoom), 77.f);
  g.y = {y.data(), c.height, c.width, c.width + kRoom};
  guided_upsample(isa, g);
  for (size_t i = 0; i < c.height; ++i) {
    for (size_t j = 0; j < c.width + kRoom; ++j) {
      const float got = g.y.data[i * g.y.stride + j];
      if (j >= c.width) {
        PALM_CHECK(got == 77.f, "%s: wrote past row %zu", name, i);
        continue;
      }
      const auto at = [&](const Rows<const float>& from) {
        const auto place = [](size_t k, size_t length, size_t count) {
          const auto scale = static_cast<double>(length) / static_cast<double>(count);
          return (static_cast<double>(k) + 0.5) * scale - 0.5;
        };
        return bilinear(from, place(i, from.height, c.height), place(j, from.width, c.width));
      };
      const uint8_t* const pixel = g.image.row(i) + 3 * j;
      double expected = at(g.offset);
      if (c.planes == 1) {
        const double brightness = std::floor(
            (pixel[0] * 9798.0 + pixel[1] * 19235.0 + pixel[2] * 3735.0) / 32768 + 0.5);
        expected += at(g.slopes[0]) * brightness;
      } else {
        for (size_t k = 0; k < 3; ++k) expected += at(g.slopes[k]) * pixel[k];
      }
      expected = std::min(std::max(expected, 0.0), 1.0);
      PALM_CHECK(is_close(got, expected, 1e-5), "%s: y[%zu][%zu] is %g, expected %g", name, i, j,
                 got, expected);
    }
  }
}

// A fit beside sums over all of each neighbourhood, in double precision.
void check_fit(const char* name, uint32_t isa, size_t height, size_t width, size_t planes,
               float reach) {
  Random random;
  constexpr size_t kRoom = 3;
  constexpr float kWeight = 2.f;
  const size_t stride = width + kRoom;
  std::vector<Vector> owner;
  for (size_t k = 0; k < 4; ++k) {
    owner.push_back(random.floats(height * stride));
    for (float& value : owner.back()) value = std::fabs(value) > 1.f ? 1.f : std::fabs(value);
  }
  std::vector<Vector> made(planes + 1, Vector(height * stride, 77.f));
  GuidedFit fit{{owner[3].data(), height, width, stride}, {}, planes, reach, kWeight, {}};
  for (size_t k = 0; k < planes; ++k) fit.colours[k] = {owner[k].data(), height, width, stride};
  for (size_t k = 0; k <= planes; ++k) fit.y[k] = {made[k].data(), height, width, stride};
  guided_fit(isa, fit);
  const auto inside = [](ptrdiff_t i, size_t length) {
    const ptrdiff_t last = static_cast<ptrdiff_t>(length) - 1;
    while (last && (i < 0 || i > last)) i = i < 0 ? -i : 2 * last - i;
    return last ? static_cast<size_t>(i) : 0;
  };
  const ptrdiff_t most = static_cast<ptrdiff_t>(std::ceil(2 * reach));
  const auto gauss = [&](ptrdiff_t i) {
    const double x = static_cast<double>(i) / reach;
    return std::exp(-0.5 * x * x);
  };
  for (size_t y = 0; y < height; ++y) {
    for (size_t x = 0; x < stride; ++x) {
      if (x >= width) {
        for (const Vector& each : made)
          PALM_CHECK(each[y * stride + x] == 77.f, "%s: wrote past row %zu", name, y);
        continue;
      }
      double weights[2] = {0, 0}, sums[2][3] = {};
      for (ptrdiff_t dy = -most; dy <= most; ++dy) {
        for (ptrdiff_t dx = -most; dx <= most; ++dx) {
          const size_t at = inside(static_cast<ptrdiff_t>(y) + dy, height) * stride +
                            inside(static_cast<ptrdiff_t>(x) + dx, width);
          const double lead = 2.0 * owner[3][at] - 1;
          for (int side : {0, 1}) {
            const double certain = std::max(side ? -lead : lead, 0.0);
            const double weight = gauss(dy) * gauss(dx) * (certain * certain + 1e-4);
            weights[side] += weight;
            for (size_t k = 0; k < planes; ++k) sums[side][k] += weight * owner[k][at];
          }
        }
      }
      const double prior = fit.prior.row(y)[x];
      double length = 0, towards[3], drop = 0;
      for (size_t k = 0; k < planes; ++k) {
        towards[k] = sums[0][k] / weights[0] - sums[1][k] / weights[1];
        length += towards[k] * towards[k];
      }
      const double heard = 4 * kWeight * (prior - prior * prior) * length;
      // Close to the threshold either is right.
      if (std::fabs(heard - 1e-4) < 1e-6) continue;
      const double said = heard > 1e-4 ? heard : 0, gain = said / (said + 1);
      drop = gain * prior;
      for (size_t k = 0; k < planes; ++k) {
        const double slope = towards[k] * gain / (length + 1e-6);
        drop += slope * sums[1][k] / weights[1];
        PALM_CHECK(is_close(fit.y[k].row(y)[x], slope, 1e-4), "%s: slope[%zu][%zu] is %g, not %g",
                   name, y, x, fit.y[k].row(y)[x], slope);
      }
      PALM_CHECK(is_close(fit.y[planes].row(y)[x], drop, 1e-4), "%s: drop[%zu][%zu] is %g, not %g",
                 name, y, x, fit.y[planes].row(y)[x], drop);
    }
  }
}

}  // namespace

int main() {
  constexpr Case kCases[] = {{1, 1, 1, 1, 1, 1, 1},        {1, 1, 5, 4, 3, 2, 3},
                             {7, 5, 1, 1, 1, 1, 3},        {1, 200, 2, 1, 1, 2, 1},
                             {40, 131, 16, 32, 8, 16, 1},  {40, 131, 16, 32, 8, 16, 3},
                             {96, 128, 256, 256, 128, 128, 1}, {33, 64, 33, 64, 17, 32, 3}};
  // The functions are some of a set; it is the set that is tested.
#define PALM_KERNEL(need, isa)                                               \
  if (runs_here(need)) {                                                     \
    for (const Case& each : kCases) check("guided_" #isa, need, each);       \
    for (size_t planes : {1, 2, 3})                                          \
      for (size_t width : {1, 2, 15, 16, 33})                                \
        for (size_t height : {1, 3, 21})                                     \
          for (float reach : {0.4f, 1.f, 3.2f})                              \
            check_fit("guided_" #isa, need, height, width, planes, reach);   \
  } else {                                                                   \
    std::printf("skip guided_%s\n", #isa);                                  \
  }
#include "kernels/guided/kernels.inc"
#undef PALM_KERNEL
}
