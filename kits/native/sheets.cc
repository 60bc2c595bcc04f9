#include "sheets.h"

#include <cmath>
#include <limits>
#include <numeric>

namespace palm_kits {
namespace {

// Two rectangles take the place of one if they have this share of its area or less.
constexpr double kWorthCutting = 0.85;

Corners<float> hull_of(const Corners<float>& a, const Corners<float>& b) {
  return {std::min(a[0], b[0]), std::min(a[1], b[1]), std::max(a[2], b[2]), std::max(a[3], b[3])};
}

float area_with(const Corners<float>& box, float gap) {
  return (box[2] - box[0] + gap) * (box[3] - box[1] + gap);
}

// The area of the box round the first, the first two, and so on.
std::vector<float> hull_areas(const Boxes& boxes, float gap) {
  std::vector<float> areas;
  Corners<float> hull = boxes[0];
  for (const Corners<float>& each : boxes) {
    hull = hull_of(hull, each);
    areas.push_back(area_with(hull, gap));
  }
  return areas;
}

// Two groups of boxes, if it is worth it or their hull is too long; else none.
std::vector<Boxes> cut(const Boxes& boxes, float gap, double most) {
  Corners<float> hull = boxes[0];
  for (const Corners<float>& each : boxes) hull = hull_of(hull, each);
  const float sides[2] = {hull[2] - hull[0], hull[3] - hull[1]};
  const size_t longest = sides[1] > sides[0];
  std::vector<Boxes> groups;
  if (static_cast<double>(sides[longest]) > most) {
    // The first and the last box lie on different sides of the middle.
    const float middle = (hull[longest] + hull[longest + 2]) / 2;
    groups.resize(2);
    for (const Corners<float>& each : boxes)
      groups[(each[longest] + each[longest + 2]) / 2 > middle].push_back(each);
    if (groups[0].empty() || groups[1].empty()) groups.clear();
    return groups;
  }
  double least = kWorthCutting * static_cast<double>(area_with(hull, gap));
  for (size_t axis = 0; axis < 2; ++axis) {
    Boxes ordered = boxes;
    std::stable_sort(ordered.begin(), ordered.end(),
                     [&](const Corners<float>& a, const Corners<float>& b) {
                       return a[axis] + a[axis + 2] < b[axis] + b[axis + 2];
                     });
    const std::vector<float> before = hull_areas(ordered, gap);
    const std::vector<float> after = hull_areas({ordered.rbegin(), ordered.rend()}, gap);
    for (size_t first = 1; first < ordered.size(); ++first) {
      const double both = before[first - 1] + after[ordered.size() - first - 1];
      if (!(both < least)) continue;
      least = both;
      const auto at = ordered.begin() + static_cast<ptrdiff_t>(first);
      groups = {{ordered.begin(), at}, {at, ordered.end()}};
    }
  }
  return groups;
}

}  // namespace

const std::vector<palm_kits_size>& sheet_sizes() {
  static const std::vector<palm_kits_size> all{{256, 256},  {512, 256},  {512, 384},  {512, 512},
                                               {1024, 256}, {256, 1024}, {768, 512},  {512, 768},
                                               {1024, 512}, {512, 1024}, {1024, 768}, {1024, 1024}};
  return all;
}

Sheet rows_of(const std::vector<Part>& parts, int side, int length) {
  const int count = static_cast<int>(parts.size()), rows = (count + length - 1) / length;
  Sheet sheet{{std::min(count, length) * side, rows * side}, parts, {}};
  for (int i = 0; i < count; ++i) {
    const int left = i % length * side, top = i / length * side;
    sheet.cells.push_back({left, top, left + side, top + side});
  }
  return sheet;
}

Boxes windows(const Boxes& boxes, double reach, double least, const Box& area) {
  const double low[2] = {static_cast<double>(area.left), static_cast<double>(area.top)};
  const double high[2] = {static_cast<double>(area.right), static_cast<double>(area.bottom)};
  Boxes all;
  for (const Corners<float>& box : boxes) {
    const float longer = std::max(box[2] - box[0], box[3] - box[1]);
    const float far = std::max(longer * static_cast<float>(reach), static_cast<float>(least));
    Corners<float> window;
    for (size_t i = 0; i < 2; ++i) {
      const float middle = (box[i] + box[i + 2]) / 2;
      const auto inside = [&](float x) {
        return static_cast<float>(std::min(std::max(static_cast<double>(x), low[i]), high[i]));
      };
      window[i] = inside(std::floor(middle - far));
      window[i + 2] = inside(std::ceil(middle + far));
    }
    all.push_back(window);
  }
  return all;
}

Boxes rectangles(const Boxes& boxes, double gap, double most) {
  Boxes all;
  std::vector<Boxes> waiting;
  if (!boxes.empty()) waiting.push_back(boxes);
  while (!waiting.empty()) {
    const Boxes own = std::move(waiting.back());
    waiting.pop_back();
    std::vector<Boxes> groups = cut(own, static_cast<float>(gap), most);
    if (groups.empty()) {
      Corners<float> hull = own[0];
      for (const Corners<float>& each : own) hull = hull_of(hull, each);
      all.push_back(hull);
      continue;
    }
    waiting.push_back(std::move(groups[1]));
    waiting.push_back(std::move(groups[0]));
  }
  return all;
}

namespace {

struct Placed {
  size_t row;
  Box cell;
};

// Places of those that find one on shelves, the highest first.
std::vector<Placed> shelved(const std::vector<palm_kits_size>& sizes, const palm_kits_size& sheet) {
  constexpr int kSpace = static_cast<int>(kGap);
  std::vector<size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return sizes[a].height > sizes[b].height; });
  std::vector<Placed> cells;
  int left = 0, top = 0, shelf = 0;
  for (size_t row : order) {
    const palm_kits_size& own = sizes[row];
    if (left && left + own.width > sheet.width) left = 0, top += shelf + kSpace, shelf = 0;
    if (own.width > sheet.width || top + own.height > sheet.height) continue;
    cells.push_back({row, {left, top, left + own.width, top + own.height}});
    left += own.width + kSpace, shelf = std::max(shelf, own.height);
  }
  return cells;
}

}  // namespace

std::vector<Sheet> sheets(const Boxes& rectangles, double scale,
                          const std::vector<palm_kits_size>& sizes) {
  std::vector<Part> waiting;
  for (const Corners<float>& each : rectangles) {
    const double left = each[0], top = each[1];
    waiting.push_back({left, top, each[2] - left, each[3] - top});
  }
  std::vector<Sheet> all;
  while (!waiting.empty()) {
    std::vector<palm_kits_size> shown;
    for (const Part& part : waiting)
      shown.push_back({static_cast<int32_t>(std::ceil(part[2] * scale)),
                       static_cast<int32_t>(std::ceil(part[3] * scale))});
    std::vector<Placed> cells;
    palm_kits_size size{};
    for (const palm_kits_size& each : sizes) {
      size = each, cells = shelved(shown, each);
      if (cells.size() == waiting.size()) break;
    }
    if (cells.empty()) break;
    Sheet sheet{size, {}, {}};
    std::vector<bool> is_shown(waiting.size());
    for (const Placed& each : cells) {
      sheet.parts.push_back(waiting[each.row]), sheet.cells.push_back(each.cell);
      is_shown[each.row] = true;
    }
    all.push_back(std::move(sheet));
    std::vector<Part> left;
    for (size_t row = 0; row < waiting.size(); ++row)
      if (!is_shown[row]) left.push_back(waiting[row]);
    waiting.swap(left);
  }
  return all;
}

}  // namespace palm_kits
