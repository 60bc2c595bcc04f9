#pragma once
// Regions of a face as soft masks: palmkit.kits.tryon.regions.
#include <algorithm>
#include <vector>

#include "drawing.h"
#include "image.h"

namespace palm_kits {

struct Point {
  float x, y;
};
using Line = std::vector<Point>;

inline Point operator-(Point a, Point b) { return {a.x - b.x, a.y - b.y}; }
Line moved(Line line, Point by);

// A smooth line through points, with four times as many.
Line curve(const Line& points, bool closed);
// As the drawing has positions; finer: of how many pixels of a side one is made.
Polygon fixed(const Line& points, int finer = 1);
// Closed lines, with soft edges.
Mask filled(int width, int height, const std::vector<Line>& loops);
// The area between two lines of as many points, also where it folds.
Mask band(int width, int height, const Line& line, const Line& other, bool closed);

// 0 up to `low`, 1 from `high` on, smooth between; reversed if low > high.
inline float smoothstep(float value, double low, double high) {
  const float t = (value - static_cast<float>(low)) * static_cast<float>(1 / (high - low));
  const float in = std::min(std::max(t, 0.f), 1.f);
  return in * in * (3.f - 2.f * in);
}

}  // namespace palm_kits
