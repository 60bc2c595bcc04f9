#include "regions.h"

#include "resize.h"

namespace palm_kits {
namespace {

// How much finer regions of up to so many pixels are drawn; others are drawn twice as fine.
constexpr struct {
  int finer, most;
} kFineness[] = {{8, 1 << 12}, {4, 1 << 15}};
constexpr int kFine = 2;
constexpr int kParts = 4;  // of a curve between two points

int finer_than(int pixels) {
  for (const auto& [finer, most] : kFineness)
    if (pixels <= most) return finer;
  return kFine;
}

Mask painted(int width, int height, const std::vector<Line>& loops) {
  const int finer = finer_than(width * height);
  std::vector<Polygon> polygons;
  for (const Line& loop : loops) polygons.push_back(fixed(loop, finer));
  Bytes large(width * finer, height * finer), small(width, height);
  // Each is filled on its own: they may overlap.
  for (const Polygon& each : polygons) fill(large, {each}, 255);
  resize_area<uint8_t, 1>(large.rows(), small.rows());
  Mask mask(width, height);
  for (size_t i = 0; i < mask.size(); ++i)
    mask.data()[i] = static_cast<float>(small.data()[i]) * (1.f / 255.f);
  return mask;
}

}  // namespace

Line moved(Line line, Point by) {
  for (Point& each : line) each = {each.x + by.x, each.y + by.y};
  return line;
}

Line curve(const Line& points, bool closed) {
  // A Catmull-Rom spline.
  const size_t count = points.size();
  const auto at = [&](size_t i, int ahead) {
    const auto all = static_cast<int>(count), place = static_cast<int>(i) + ahead;
    return points[static_cast<size_t>(closed ? (place + all) % all : clamped(place, 0, all - 1))];
  };
  Line line;
  for (size_t i = 0; i < count; ++i) {
    const Point before = at(i, -1), own = at(i, 0), after = at(i, 1), further = at(i, 2);
    for (int part = 0; part < (closed || i + 1 < count ? kParts : 1); ++part) {
      const float t = static_cast<float>(part) / kParts, t2 = t * t, t3 = t2 * t;
      const float a = 0.5f * (2 * t2 - t - t3), b = 0.5f * (2 - 5 * t2 + 3 * t3);
      const float c = 0.5f * (t + 4 * t2 - 3 * t3), d = 0.5f * (t3 - t2);
      line.push_back({a * before.x + b * own.x + c * after.x + d * further.x,
                      a * before.y + b * own.y + c * after.y + d * further.y});
    }
  }
  return line;
}

Polygon fixed(const Line& points, int finer) {
  // Far beyond any picture, where numbers would not be whole any more.
  constexpr float kFar = 1e5f;
  const auto place = [&](float x) {
    const float near = std::min(std::max(x, -kFar), kFar);
    return rounded((near * static_cast<float>(finer) - 0.5f) * 16.f);
  };
  Polygon polygon;
  for (const Point& each : points) polygon.push_back({place(each.x), place(each.y)});
  return polygon;
}

Mask filled(int width, int height, const std::vector<Line>& loops) {
  return painted(width, height, loops);
}

Mask band(int width, int height, const Line& line, const Line& other, bool closed) {
  std::vector<Line> quads;
  for (size_t i = 0; i + (closed ? 0 : 1) < line.size(); ++i) {
    const size_t next = (i + 1) % line.size();
    quads.push_back({line[i], line[next], other[next], other[i]});
  }
  return painted(width, height, quads);
}

}  // namespace palm_kits
