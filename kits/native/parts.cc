#include "parts.h"

#include <algorithm>
#include <cmath>

#include "planes.h"
#include "resize.h"
#include "views.h"

namespace palm_kits {
namespace {

// These are the numbers of palmkit.kits.portrait.parts, which says what each means.
constexpr double kCloser = 0.7;
constexpr size_t kMostGroups = 4;
constexpr double kApartLeast = 0.002, kApartRoom = 0.1, kApartMost = 0.5;
constexpr size_t kApartCount = 8;

Box round_both(const Box& a, const Box& b) {
  return {std::min(a.left, b.left), std::min(a.top, b.top), std::max(a.right, b.right),
          std::max(a.bottom, b.bottom)};
}

// Boxes round those that overlap, none of which overlap.
std::vector<Box> disjoint(const std::vector<Box>& boxes) {
  std::vector<Box> found;
  for (Box box : boxes) {
    for (size_t i = 0; i < found.size();) {
      if (!overlap(box, found[i])) {
        ++i;
        continue;
      }
      // The box round both may reach those before.
      box = round_both(box, found[i]);
      found.erase(found.begin() + static_cast<ptrdiff_t>(i));
      i = 0;
    }
    found.push_back(box);
  }
  return found;
}

// A box of a part of a picture, in the picture.
Box from(const Box& part, const Box& box) {
  return {part.left + box.left, part.top + box.top, part.left + box.right, part.top + box.bottom};
}

}  // namespace

bool overlap(const Box& one, const Box& other) {
  return one.left < other.right && other.left < one.right && one.top < other.bottom &&
         other.top < one.bottom;
}

bool is_within(const Box& one, const Box& other) {
  return other.left <= one.left && one.right <= other.right && other.top <= one.top &&
         one.bottom <= other.bottom;
}

std::optional<Box> people_in(MaskView coarse, const Box& seen) {
  const std::optional<Box> box = box_of_people(coarse, seen.width(), seen.height());
  if (!box) return std::nullopt;
  return from(seen, *box);
}

std::optional<Box> closer(MaskView coarse, const Box& seen) {
  const std::optional<Box> box = people_in(coarse, seen);
  return box && area_of(*box) <= kCloser * area_of(seen) ? box : std::nullopt;
}

std::vector<Box> parts_of(int width, int height, int count, double share, int step) {
  const auto length_of = [share, step](int full) {
    const int least = static_cast<int>(std::ceil(share * full));
    return std::min((least + step - 1) / step * step, full);
  };
  const int wide = length_of(width), high = length_of(height);
  const auto start = [count, step](int64_t left, int i) {
    const int64_t exact = left * i / (count - 1);
    return static_cast<int>(i < count - 1 ? exact / step * step : left);
  };
  std::vector<Box> parts;
  for (int row = 0; row < count; ++row) {
    const int top = start(height - high, row);
    for (int column = 0; column < count; ++column) {
      const int left = start(width - wide, column);
      parts.push_back({left, top, left + wide, top + high});
    }
  }
  return parts;
}

void drop_cut(Mask& people, const Box& part, int width, int height) {
  const int columns = people.width(), rows = people.height();
  const Parts parts = connected(above(people, 0.5f));
  std::vector<char> is_cut(static_cast<size_t>(parts.count));
  const auto mark = [&](int x, int y) {
    is_cut[static_cast<size_t>(parts.labels[static_cast<size_t>(y * columns + x)])] = 1;
  };
  for (int y = 0; y < rows; ++y) {
    if (part.left > 0) mark(0, y);
    if (part.right < width) mark(columns - 1, y);
  }
  for (int x = 0; x < columns; ++x) {
    if (part.top > 0) mark(x, 0);
    if (part.bottom < height) mark(x, rows - 1);
  }
  // What is around people has no label of theirs.
  is_cut[0] = 0;
  for (size_t i = 0; i < people.size(); ++i)
    if (is_cut[static_cast<size_t>(parts.labels[i])]) people.data()[i] = 0;
}

std::vector<Box> apart(MaskView coarse, const Box& seen) {
  const Parts parts = connected(above(coarse, 0.5f));
  const int width = seen.width(), height = seen.height();
  const size_t size = parts.labels.size();
  std::vector<Box> boxes;
  for (int label = 1; label < parts.count; ++label) {
    if (parts.areas[static_cast<size_t>(label)] < kApartLeast * static_cast<double>(size)) continue;
    Mask alone(coarse.width, coarse.height);
    for (size_t i = 0; i < size; ++i) alone.data()[i] = parts.labels[i] == label ? 1.f : 0.f;
    if (const std::optional<Box> box =
            box_round(alone, {0, 0, width, height}, width, height, kApartRoom))
      boxes.push_back(from(seen, *box));
  }
  std::vector<Box> found = disjoint(boxes);
  std::stable_sort(found.begin(), found.end(), [](const Box& one, const Box& other) {
    return area_of(one) > area_of(other);
  });
  if (found.size() > kApartCount) found.resize(kApartCount);
  const double most = kApartMost * area_of(seen);
  found.erase(std::remove_if(found.begin(), found.end(),
                             [most](const Box& box) { return area_of(box) >= most; }),
              found.end());
  return found;
}

void mix_in(Mask& coarse, const Mask& said, const Box& part, const Box& seen) {
  const int side = coarse.width();
  const Span across = span(part.left - seen.left, part.right - seen.left,
                           static_cast<double>(side) / seen.width(), side);
  const Span down = span(part.top - seen.top, part.bottom - seen.top,
                         static_cast<double>(side) / seen.height(), side);
  Mask small(across.high - across.low, down.high - down.low);
  resize_area<float, 1>(said, small.rows());
  const Rows<float, 1> place = coarse.rows().part(across.low, down.low, across.high, down.high);
  for (int y = 0; y < place.height; ++y)
    for (int x = 0; x < place.width; ++x)
      place.row(y)[x] = (place.row(y)[x] + small.row(y)[x]) / 2;
}

std::vector<Box> groups(const std::vector<Box>& boxes) {
  const std::vector<Box> found = disjoint(boxes);
  if (found.size() <= kMostGroups) return found;
  Box all = found[0];
  for (const Box& box : found) all = round_both(all, box);
  return {all};
}

}  // namespace palm_kits
