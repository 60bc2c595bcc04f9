#pragma once
// Polygons and thick lines, filled as OpenCV fills them: pixel centres are at whole numbers.
#include <cstdint>
#include <vector>

#include "image.h"

namespace palm_kits {

// A position in sixteenths of a pixel.
struct Fixed {
  int x, y;
};
using Polygon = std::vector<Fixed>;

// What an odd number of polygons covers, and the lines round them, become `value`.
void fill(Bytes& y, const std::vector<Polygon>& polygons, uint8_t value);
// The same of one that is convex.
template <class T>
void fill_convex(Dense<T, 1>& y, const Polygon& polygon, T value);
// A line with round ends.
void draw_line(Bytes& y, Fixed from, Fixed to, int thickness, uint8_t value);
// Counter-clockwise in a picture or clockwise: the corners of the smallest convex polygon round
// points.
Polygon hull(Polygon points);

}  // namespace palm_kits
