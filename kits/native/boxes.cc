#include "boxes.h"

#include <limits>

namespace palm_kits {

float distance_iou(const Corners<double>& a, const Corners<double>& b) {
  const double x = (a[0] + a[2]) / 2 - (b[0] + b[2]) / 2, y = (a[1] + a[3]) / 2 - (b[1] + b[3]) / 2;
  const double width = std::max(a[2], b[2]) - std::min(a[0], b[0]);
  const double height = std::max(a[3], b[3]) - std::min(a[1], b[1]);
  const double least = std::numeric_limits<float>::min();
  const double diagonal = std::max(width * width + height * height, least);
  return static_cast<float>(iou(a, b) - (x * x + y * y) / diagonal);
}

Corners<float> clipped(const Corners<float>& box, int width, int height) {
  Corners<float> inside;
  for (size_t i = 0; i < 4; ++i)
    inside[i] = std::min(std::max(box[i], 0.f), static_cast<float>(i % 2 ? height : width));
  return inside;
}

Corners<float> box_round(const float* points, size_t count, size_t step) {
  Corners<float> box{points[0], points[1], points[0], points[1]};
  for (size_t i = 1; i < count; ++i) {
    const float x = points[i * step], y = points[i * step + 1];
    box = {std::min(box[0], x), std::min(box[1], y), std::max(box[2], x), std::max(box[3], y)};
  }
  return box;
}

std::vector<size_t> falling(const std::vector<double>& values) {
  std::vector<size_t> order(values.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return values[a] > values[b]; });
  return order;
}

Kept weighted_nms(const Boxes& boxes, const std::vector<float>& scores,
                  const std::vector<float>& values, size_t width, float max_iou, float blend_iou) {
  std::vector<size_t> left = falling({scores.begin(), scores.end()}), rest;
  const float least = std::max(max_iou, blend_iou);
  Kept kept;
  std::vector<double> mean(width);
  while (!left.empty()) {
    std::fill(mean.begin(), mean.end(), 0.0);
    double total = 0;
    rest.clear();
    for (size_t i = 0; i < left.size(); ++i) {
      const size_t row = left[i];
      // A box without area does not even overlap itself.
      const float overlap =
          i ? iou(boxes[left[0]], boxes[row]) : std::numeric_limits<float>::infinity();
      if (overlap > least) {
        const float weight = std::max(scores[row], std::numeric_limits<float>::min());
        total += weight;
        for (size_t k = 0; k < width; ++k)
          mean[k] += static_cast<double>(weight) * values[row * width + k];
      }
      if (overlap <= max_iou) rest.push_back(row);
    }
    kept.rows.push_back(left[0]);
    for (double sum : mean) kept.means.push_back(static_cast<float>(sum / total));
    left.swap(rest);
  }
  return kept;
}

}  // namespace palm_kits
