#pragma once
// Boxes as corners, left, top, right, bottom in pixels, as palmkit.kits.boxes.
#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

namespace palm_kits {

template <class T>
using Corners = std::array<T, 4>;
using Boxes = std::vector<Corners<float>>;

// 0 of an empty or inside-out box.
template <class T>
float area(const Corners<T>& box) {
  const T width = std::max(box[2] - box[0], T{}), height = std::max(box[3] - box[1], T{});
  return static_cast<float>(width * height);
}

template <class T>
T shared_area(const Corners<T>& a, const Corners<T>& b) {
  const T width = std::max(std::min(a[2], b[2]) - std::max(a[0], b[0]), T{});
  const T height = std::max(std::min(a[3], b[3]) - std::max(a[1], b[1]), T{});
  return width * height;
}

template <class T>
float iou(const Corners<T>& a, const Corners<T>& b) {
  const T shared = shared_area(a, b);
  const T both = static_cast<T>(area(a) + area(b)) - shared;
  return both > 0 ? static_cast<float>(shared / both) : 0.f;
}

// IoU less the squared distance of the middles over the squared diagonal of the hull: -1 to 1.
float distance_iou(const Corners<double>& a, const Corners<double>& b);

Corners<float> clipped(const Corners<float>& box, int width, int height);

// The box round points, `step` numbers each.
Corners<float> box_round(const float* points, size_t count, size_t step);

// Boxes that no better one overlaps by more than max_iou, best first; and, of `values` of `width`
// numbers each, the mean by score of a box and those that overlap it by more than blend_iou, too.
struct Kept {
  std::vector<size_t> rows;
  std::vector<float> means;
};
Kept weighted_nms(const Boxes& boxes, const std::vector<float>& scores,
                  const std::vector<float>& values, size_t width, float max_iou, float blend_iou);

// Indices of falling numbers; equal ones stay in order.
std::vector<size_t> falling(const std::vector<double>& values);

}  // namespace palm_kits
