#include "heads.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "planes.h"
#include "resize.h"

namespace palm_kits {
namespace {

// These are the numbers of palmkit.kits.tryon.heads, which says what each means.
constexpr double kCellCm = 0.9, kMostCells = 320;
constexpr int kRoom = 2;
constexpr float kGoesOn = 0.2f, kAcross = 0.6f, kUp = 0.8f, kDown = 0.7f, kHanging = 1.3f;
constexpr float kNear = 1.2f, kInFront = 1.25f, kReach = 4, kSmall = 24, kSure = 0.75f;
constexpr double kSticky = 1.3;

float side_of(const palm_kits_mesh& each) { return std::max(each.face.box[2], each.face.box[3]); }
float middle(const palm_kits_mesh& each, int axis) {
  return each.face.box[axis] + each.face.box[axis + 2] / 2;
}

// The distance to a face's middle, 1 at an outline that lies `below` sides under it.
float distance(float across, float down, float side, float below) {
  const float high = down > 0 ? down * (1 / below) : down * (1 / kUp),
              wide = across * (1 / kAcross);
  return std::sqrt(high * high + wide * wide) * (1 / std::max(side, 1e-3f));
}

// Squares of a picture, by the pixels at their middles.
struct Squares {
  int left, top, step, width, height;
  float x(int column) const { return static_cast<float>(column * step + left + step / 2); }
  float y(int row) const { return static_cast<float>(row * step + top + step / 2); }
};

// Which face each square belongs to.
std::vector<size_t> owners(const Squares& grid, const Meshes& faces) {
  const size_t squares = static_cast<size_t>(grid.width) * static_cast<size_t>(grid.height);
  std::vector<std::vector<float>> away(faces.size(), std::vector<float>(squares));
  for (size_t face = 0; face < faces.size(); ++face) {
    for (size_t at = 0; at < squares; ++at) {
      const auto place = static_cast<int>(at);
      away[face][at] = distance(grid.x(place % grid.width) - middle(faces[face], 0),
                                grid.y(place / grid.width) - middle(faces[face], 1),
                                side_of(faces[face]), kHanging);
    }
  }
  // Crowns of heads before a face hide what is its own, from the largest face down.
  Indices order(faces.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return side_of(faces[a]) > side_of(faces[b]); });
  const std::vector<std::vector<float>> open = away;
  for (size_t face = 0; face < faces.size(); ++face) {
    size_t before = 0;
    for (const palm_kits_mesh& other : faces)
      before += side_of(other) >= kInFront * side_of(faces[face]);
    for (size_t i = 0; i < before; ++i) {
      for (size_t at = 0; at < squares; ++at) {
        const float y = grid.y(static_cast<int>(at) / grid.width);
        if (open[order[i]][at] < kNear && y < middle(faces[order[i]], 1))
          away[face][at] = std::numeric_limits<float>::infinity();
      }
    }
  }
  std::vector<size_t> owner(squares);
  for (size_t face = 1; face < faces.size(); ++face)
    for (size_t at = 0; at < squares; ++at)
      if (away[face][at] < away[owner[at]][at]) owner[at] = face;
  return owner;
}

// A head's squares as a part of the picture, and the mask there, without what is others'.
HeadHair cut(MaskView mask, const Squares& grid, const Box& area, const Bytes& kept,
             const Bytes& others, size_t row, double per_cm) {
  const Box found = bounds(kept);
  // As far as its faint ends go, and further, so that there is background on every side.
  const int margin = kRoom + std::max(found.width(), found.height()) / 16;
  const Box cells{std::max(found.left - margin, 0), std::max(found.top - margin, 0),
                  found.right + margin, found.bottom + margin};
  const Box part{area.left + cells.left * grid.step, area.top + cells.top * grid.step,
                 std::min(area.left + cells.right * grid.step, area.right),
                 std::min(area.top + cells.bottom * grid.step, area.bottom)};
  HeadHair head{row, part,
                copied<float, 1>(mask.part(part.left, part.top, part.right, part.bottom)), per_cm};
  const int right = std::min(cells.right, grid.width), bottom = std::min(cells.bottom, grid.height);
  const Bytes near = largest(kept, square(3)), far = largest(others, square(3));
  Mask share(right - cells.left, bottom - cells.top);
  bool any = false;
  for (int y = cells.top; y < bottom; ++y) {
    for (int x = cells.left; x < right; ++x) {
      any |= others.row(y)[x] != 0;
      const bool is_own = near.row(y)[x] > far.row(y)[x] || kept.row(y)[x];
      share.row(y - cells.top)[x - cells.left] = is_own;
    }
  }
  if (!any) return head;
  Mask large(part.width(), part.height());
  resize_linear<float, 1>(share.rows(), large.rows());
  for (size_t i = 0; i < large.size(); ++i) head.mask.data()[i] *= large.data()[i];
  return head;
}

}  // namespace

Indices Wearers::among(const Meshes& faces, View image, int which, int most, bool is_video,
                       bool doubts) {
  Indices rows;
  for (size_t i = 0; i < faces.size(); ++i)
    if (!doubts || is_video || side_of(faces[i]) >= kSmall || faces[i].face.score >= kSure)
      rows.push_back(i);
  if (most && rows.size() > static_cast<size_t>(most)) {
    std::stable_sort(rows.begin(), rows.end(),
                     [&](size_t a, size_t b) { return faces[a].face.score > faces[b].face.score; });
    rows.resize(static_cast<size_t>(most));
    std::sort(rows.begin(), rows.end());
  }
  if (which == PALM_KITS_ALL || rows.empty()) return rows;
  if (which >= 0) {
    std::stable_sort(rows.begin(), rows.end(),
                     [&](size_t a, size_t b) { return middle(faces[a], 0) < middle(faces[b], 0); });
    if (static_cast<size_t>(which) >= rows.size()) return {};
    return {rows[static_cast<size_t>(which)]};
  }
  const double around = 0.05 * std::max(image.width, image.height);
  const auto cost = [&](size_t row) {
    const palm_kits_mesh& each = faces[row];
    const double area = static_cast<double>(each.face.box[2]) * each.face.box[3];
    double all = 1 / std::max(area, 1e-6);
    if (which == PALM_KITS_MIDDLE)
      all = std::hypot(middle(each, 0) - image.width / 2.0, middle(each, 1) - image.height / 2.0) +
            around;
    return is_video && each.face.id == chosen_ ? all / kSticky : all;
  };
  size_t best = rows[0];
  for (size_t row : rows)
    if (cost(row) < cost(best)) best = row;
  if (is_video) chosen_ = faces[best].face.id;
  return {best};
}

std::vector<HeadHair> hair_of_heads(MaskView mask, const Meshes& faces, const Indices& wearers) {
  std::vector<HeadHair> all;
  if (wearers.empty()) return all;
  float low[2], high[2], least = std::numeric_limits<float>::infinity();
  for (size_t axis = 0; axis < 2; ++axis) {
    low[axis] = std::numeric_limits<float>::infinity(), high[axis] = -low[axis];
    for (size_t row : wearers) {
      const float side = side_of(faces[row]), at = middle(faces[row], static_cast<int>(axis));
      low[axis] = std::min(low[axis], at - side * kReach);
      high[axis] = std::max(high[axis], at + side * kReach);
      least = std::min(least, side);
    }
  }
  const auto in = [](float x, int end) {
    return static_cast<int>(std::min(std::max(x, 0.f), static_cast<float>(end)));
  };
  const Box area{in(low[0], mask.width), in(low[1], mask.height), in(high[0], mask.width),
                 in(high[1], mask.height)};
  const double finest = static_cast<double>(least) * kCellCm / kFaceCm;
  const int longest = std::max({area.width(), area.height(), 1});
  const int step =
      std::max(static_cast<int>(finest), static_cast<int>(std::ceil(longest / kMostCells)));
  // The mask varies little within a square: its middle stands for it.
  const int first = step / 2;
  const auto squares = [&](int length) { return std::max((length - first + step - 1) / step, 0); };
  const Squares grid{area.left, area.top, step, squares(area.width()), squares(area.height())};
  if (!grid.width || !grid.height) return all;
  Bytes is_hair(grid.width, grid.height);
  bool any = false;
  for (int y = 0; y < grid.height; ++y) {
    for (int x = 0; x < grid.width; ++x) {
      const float value = mask.row(area.top + first + y * step)[area.left + first + x * step];
      is_hair.row(y)[x] = value > kGoesOn, any |= value > kGoesOn;
    }
  }
  if (!any) return all;
  const std::vector<size_t> owner = owners(grid, faces);
  for (size_t row : wearers) {
    Bytes nearest = is_hair;
    for (size_t i = 0; i < nearest.size(); ++i) nearest.data()[i] &= owner[i] == row;
    const Parts parts = connected(nearest);
    std::vector<bool> is_here(static_cast<size_t>(parts.count));
    bool has = false;
    for (size_t i = 0; i < nearest.size(); ++i) {
      const auto place = static_cast<int>(i), label = parts.labels[i];
      const float away =
          distance(grid.x(place % grid.width) - middle(faces[row], 0),
                   grid.y(place / grid.width) - middle(faces[row], 1), side_of(faces[row]), kDown);
      if (label && away < kNear) is_here[static_cast<size_t>(label)] = has = true;
    }
    if (!has) continue;
    Bytes kept(grid.width, grid.height), others = is_hair;
    for (size_t i = 0; i < kept.size(); ++i) {
      kept.data()[i] = is_here[static_cast<size_t>(parts.labels[i])];
      if (kept.data()[i]) others.data()[i] = 0;
    }
    const double per_cm = static_cast<double>(side_of(faces[row])) / kFaceCm;
    all.push_back(cut(mask, grid, area, kept, others, row, per_cm));
  }
  return all;
}

}  // namespace palm_kits
