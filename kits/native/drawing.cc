#include "drawing.h"

#include <algorithm>
#include <cmath>

namespace palm_kits {
namespace {

// Places within rows are in units of 2^-16 pixels.
constexpr int kShift = 16, kFixed = 4;
constexpr int64_t kUnit = int64_t{1} << kShift, kHalf = kUnit / 2;

int64_t fine(int x) { return static_cast<int64_t>(x) << (kShift - kFixed); }
int row_of(int y) { return (y + (1 << kFixed >> 1)) >> kFixed; }

template <class T>
void put(Dense<T, 1>& y, int64_t column, int64_t row, T value) {
  if (column >= 0 && column < y.width() && row >= 0 && row < y.height())
    y.row(static_cast<int>(row))[column] = value;
}

template <class T>
void put_row(Dense<T, 1>& y, int row, int64_t from, int64_t to, T value) {
  from = std::max<int64_t>(from, 0), to = std::min<int64_t>(to, y.width() - 1);
  if (row < 0 || row >= y.height() || from > to) return;
  std::fill_n(y.row(row) + from, to - from + 1, value);
}

// Bresenham's line between pixels, from the left to the right.
void line(Bytes& y, int x0, int y0, int x1, int y1, uint8_t value) {
  if (x1 < x0) std::swap(x0, x1), std::swap(y0, y1);
  const int down = y1 < y0 ? -1 : 1, wide = x1 - x0, high = std::abs(y1 - y0);
  const int longer = std::max(wide, high), shorter = std::min(wide, high);
  int error = longer - 2 * shorter;
  for (int i = 0; i <= longer; ++i) {
    put(y, x0, y0, value);
    const bool both = error < 0;
    error += (both ? 2 * longer : 0) - 2 * shorter;
    if (both || wide >= high) ++x0;
    if (both || wide < high) y0 += down;
  }
}

// A line between places, in units: a pixel a step of the longer side.
template <class T>
void fine_line(Dense<T, 1>& y, int64_t x0, int64_t y0, int64_t x1, int64_t y1, T value) {
  const bool is_flat = std::abs(x1 - x0) > std::abs(y1 - y0);
  if (!is_flat) std::swap(x0, y0), std::swap(x1, y1);
  if (x1 < x0) std::swap(x0, x1), std::swap(y0, y1);
  const int64_t step = (y1 - y0) * kUnit / ((x1 - x0) | 1);
  // The far end is drawn apart from the way there.
  const auto place = [&](int64_t along, int64_t aside) {
    if (is_flat) put(y, along, aside, value);
    else put(y, aside, along, value);
  };
  place((x1 + kHalf) >> kShift, (y1 + kHalf) >> kShift);
  int64_t at = y0 + kHalf;
  int64_t along = (x0 + kHalf) >> kShift;
  for (int64_t left = (x1 - x0) >> kShift; left >= 0; --left, ++along, at += step)
    place(along, at >> kShift);
}

struct Edge {
  int top, bottom;
  int64_t x, step;
};

struct Place {
  int64_t x, y;
};

// Between two rows, both of them with it.
template <class T>
void fill_convex_places(Dense<T, 1>& y, const std::vector<Place>& all, int shift, T value) {
  const auto to_units = [&](int64_t x) { return x << (kShift - shift); };
  const auto row = [&](int64_t at) {
    return static_cast<int>((at + (int64_t{1} << shift >> 1)) >> shift);
  };
  const size_t count = all.size();
  size_t top = 0;
  int low = row(all[0].y), high = low;
  for (size_t i = 0; i < count; ++i) {
    const Place &from = all[(i + count - 1) % count], &to = all[i];
    fine_line(y, to_units(from.x), to_units(from.y), to_units(to.x), to_units(to.y), value);
    if (to.y < all[top].y) top = i;
    low = std::min(low, row(to.y)), high = std::max(high, row(to.y));
  }
  // Two sides go down from the top, one each way round.
  struct Side {
    size_t at, way;
    int end;
    int64_t x, step;
  } sides[2] = {{top, 1, low, -kUnit, 0}, {top, count - 1, low, -kUnit, 0}};
  size_t left = count;
  for (int at = low; at <= std::min(high, y.height() - 1); ++at) {
    for (Side& side : sides) {
      if (at < side.end) continue;
      size_t from = side.at, to = (from + side.way) % count;
      for (;; from = to, to = (to + side.way) % count) {
        if (!left) return;
        --left;
        const int end = row(all[to].y);
        if (end <= at) continue;
        const int64_t x = to_units(all[from].x), rows = end - at;
        side = {to, side.way, end, x, ((to_units(all[to].x) - x) * 2 + rows) / (2 * rows)};
        break;
      }
    }
    const auto [first, last] = std::minmax(sides[0].x, sides[1].x);
    put_row(y, at, (first + kHalf) >> kShift, (last + kHalf) >> kShift, value);
    for (Side& side : sides) side.x += side.step;
  }
}

// A disc as of the midpoint algorithm.
void disc(Bytes& y, int x, int row, int radius, uint8_t value) {
  int error = 0, across = radius, down = 0, plus = 1, minus = 2 * radius - 1;
  while (across >= down) {
    for (int side : {-1, 1}) {
      put_row(y, row + side * down, x - across, x + across, value);
      put_row(y, row + side * across, x - down, x + down, value);
    }
    ++down, error += plus, plus += 2;
    if (error > 0) error -= minus, --across, minus -= 2;
  }
}

}  // namespace

void fill(Bytes& y, const std::vector<Polygon>& polygons, uint8_t value) {
  std::vector<Edge> edges;
  for (const Polygon& polygon : polygons) {
    for (size_t i = 0; i < polygon.size(); ++i) {
      const Fixed &a = polygon[(i + polygon.size() - 1) % polygon.size()], &b = polygon[i];
      const int64_t from = fine(a.x), to = fine(b.x);
      const int top = row_of(a.y), bottom = row_of(b.y);
      line(y, static_cast<int>((from + kHalf) >> kShift), top,
           static_cast<int>((to + kHalf) >> kShift), bottom, value);
      if (top == bottom) continue;
      edges.push_back({std::min(top, bottom), std::max(top, bottom), top < bottom ? from : to,
                       (to - from) / (bottom - top)});
    }
  }
  std::sort(edges.begin(), edges.end(), [](const Edge& a, const Edge& b) { return a.top < b.top; });
  std::vector<Edge> open;
  size_t next = 0;
  for (int row = edges.empty() ? 0 : edges[0].top; row < y.height(); ++row) {
    open.erase(std::remove_if(open.begin(), open.end(),
                              [&](const Edge& each) { return each.bottom == row; }),
               open.end());
    for (; next < edges.size() && edges[next].top == row; ++next) open.push_back(edges[next]);
    if (open.empty() && next == edges.size()) break;
    std::sort(open.begin(), open.end(), [](const Edge& a, const Edge& b) { return a.x < b.x; });
    for (size_t i = 0; i + 1 < open.size(); i += 2)
      put_row(y, row, (open[i].x + kUnit - 1) >> kShift, open[i + 1].x >> kShift, value);
    for (Edge& each : open) each.x += each.step;
  }
}

template <class T>
void fill_convex(Dense<T, 1>& y, const Polygon& polygon, T value) {
  std::vector<Place> all;
  for (const Fixed& each : polygon) all.push_back({each.x, each.y});
  fill_convex_places(y, all, kFixed, value);
}

template void fill_convex(Dense<float, 1>&, const Polygon&, float);

void draw_line(Bytes& y, Fixed from, Fixed to, int thickness, uint8_t value) {
  const int64_t x0 = fine(from.x), y0 = fine(from.y), x1 = fine(to.x), y1 = fine(to.y);
  const double across = static_cast<double>(x0 - x1) / kUnit;
  const double down = static_cast<double>(y1 - y0) / kUnit;
  const double length = std::sqrt(across * across + down * down);
  const double half = (thickness + (thickness & 1)) * static_cast<double>(kHalf);
  if (length > 1e-8) {
    const int64_t dx = rounded(down * half / length), dy = rounded(across * half / length);
    fill_convex_places(
        y, {{x0 + dx, y0 + dy}, {x0 - dx, y0 - dy}, {x1 - dx, y1 - dy}, {x1 + dx, y1 + dy}}, kShift,
        value);
  }
  const auto radius = static_cast<int>((thickness * kHalf + kHalf) >> kShift);
  disc(y, static_cast<int>((x0 + kHalf) >> kShift), static_cast<int>((y0 + kHalf) >> kShift),
       radius, value);
  disc(y, static_cast<int>((x1 + kHalf) >> kShift), static_cast<int>((y1 + kHalf) >> kShift),
       radius, value);
}

Polygon hull(Polygon points) {
  // Andrew's monotone chain.
  std::sort(points.begin(), points.end(),
            [](const Fixed& a, const Fixed& b) { return a.x != b.x ? a.x < b.x : a.y < b.y; });
  const auto turns = [](const Fixed& a, const Fixed& b, const Fixed& c) {
    return static_cast<int64_t>(b.x - a.x) * (c.y - a.y) -
           static_cast<int64_t>(b.y - a.y) * (c.x - a.x);
  };
  Polygon all;
  for (int half = 0; half < 2; ++half) {
    const size_t begin = all.size();
    for (const Fixed& each : points) {
      while (all.size() >= begin + 2 && turns(all[all.size() - 2], all.back(), each) <= 0)
        all.pop_back();
      all.push_back(each);
    }
    all.pop_back();
    std::reverse(points.begin(), points.end());
  }
  return all.empty() ? Polygon{points[0]} : all;
}

}  // namespace palm_kits
