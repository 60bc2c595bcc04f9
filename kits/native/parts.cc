#include "parts.h"

#include <algorithm>
#include <cmath>

#include "planes.h"
#include "views.h"

namespace palm_kits {
namespace {

// These are the numbers of palmkit.kits.portrait.parts, which says what each means.
constexpr double kCloser = 0.7;
constexpr size_t kMostGroups = 4;

Box round_both(const Box& a, const Box& b) {
  return {std::min(a.left, b.left), std::min(a.top, b.top), std::max(a.right, b.right),
          std::max(a.bottom, b.bottom)};
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
  return Box{seen.left + box->left, seen.top + box->top, seen.left + box->right,
             seen.top + box->bottom};
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

std::vector<Box> groups(const std::vector<Box>& boxes) {
  std::vector<Box> apart;
  for (Box box : boxes) {
    for (size_t i = 0; i < apart.size();) {
      if (!overlap(box, apart[i])) {
        ++i;
        continue;
      }
      // The box round both may reach those before.
      box = round_both(box, apart[i]);
      apart.erase(apart.begin() + static_cast<ptrdiff_t>(i));
      i = 0;
    }
    apart.push_back(box);
  }
  if (apart.size() <= kMostGroups) return apart;
  Box all = apart[0];
  for (const Box& box : apart) all = round_both(all, box);
  return {all};
}

}  // namespace palm_kits
