#include "detection.h"

#include <cmath>

namespace palm_kits {
namespace {

constexpr float kMaxIou = 0.45f, kBlendIou = 0.8f;
constexpr float kMaxInside = 0.9f;  // what lies so far within a likelier box is a part of its thing

}  // namespace

void Candidates::add(const Corners<float>& box, float score, const float* at) {
  boxes.push_back(box), scores.push_back(score);
  points.insert(points.end(), at, at + 2 * keypoints);
}

void Candidates::add(const Candidates& other) {
  for (size_t row = 0; row < other.size(); ++row)
    add(other.boxes[row], other.scores[row], other.points_of(row));
}

void decode(const Head& head, float min_score, Candidates& found) {
  const size_t numbers = 4 + 2 * found.keypoints;
  std::vector<float> values(numbers);
  const auto stride = static_cast<float>(head.stride);
  for (int y = 0; y < head.height; ++y) {
    for (int x = 0; x < head.width; ++x) {
      const size_t cell =
          static_cast<size_t>(y) * static_cast<size_t>(head.width) + static_cast<size_t>(x);
      if (!(head.scores[cell] >= min_score)) continue;
      const float* const box = head.boxes + 4 * cell;
      const float* const points = head.points + 2 * found.keypoints * cell;
      bool finite = std::isfinite(head.scores[cell]);
      for (size_t i = 0; i < numbers; ++i) {
        const float from = i < 2 ? -box[i] : i < 4 ? box[i] : points[i - 4];
        values[i] = (from + (static_cast<float>(i % 2 ? y : x) + 0.5f)) * stride;
        finite = finite && std::isfinite(values[i]);
      }
      if (!finite || !(values[0] < values[2] && values[1] < values[3])) continue;
      found.add({values[0], values[1], values[2], values[3]}, head.scores[cell], &values[4]);
    }
  }
}

Candidates merged(const Candidates& found) {
  const size_t numbers = 4 + 2 * found.keypoints;
  std::vector<float> values;
  for (size_t row = 0; row < found.size(); ++row) {
    values.insert(values.end(), found.boxes[row].begin(), found.boxes[row].end());
    values.insert(values.end(), found.points_of(row), found.points_of(row) + 2 * found.keypoints);
  }
  const Kept kept = weighted_nms(found.boxes, found.scores, values, numbers, kMaxIou, kBlendIou);
  Boxes boxes;
  Candidates whole{found.keypoints, {}, {}, {}};
  for (size_t i = 0; i < kept.rows.size(); ++i) {
    const float* const mean = &kept.means[i * numbers];
    const Corners<float> box{mean[0], mean[1], mean[2], mean[3]};
    const bool is_part = std::any_of(boxes.begin(), boxes.end(), [&](const Corners<float>& each) {
      return shared_area(box, each) > kMaxInside * area(box);
    });
    boxes.push_back(box);
    if (!is_part) whole.add(box, found.scores[kept.rows[i]], mean + 4);
  }
  return whole;
}

}  // namespace palm_kits
