// The calls of palm_kits.h that decode and suppress.
#include <algorithm>
#include <cstring>

#include "calls.h"
#include "detection.h"

using namespace palm_kits;

namespace {

constexpr size_t kMost = size_t{1} << 24;  // things in one call

size_t keypoints_of(const palm_kits_detections& detections) {
  if (detections.keypoints < 0 || detections.keypoints > 64)
    refuse("keypoints: expected 0 to 64, got %d", detections.keypoints);
  return static_cast<size_t>(detections.keypoints);
}

void check_buffers(palm_kits_detections* detections) {
  const size_t room = given(detections, "detections")->list.room;
  const size_t keypoints = keypoints_of(*detections);
  given(detections->boxes, room, "boxes"), given(detections->scores, room, "scores");
  given(detections->points, room * keypoints, "points");
}

void put(const Candidates& found, palm_kits_detections& to) {
  put_count(to.list, found.size(), "detections");
  if (!found.size()) return;
  std::memcpy(to.boxes, found.boxes.data(), found.size() * sizeof found.boxes[0]);
  std::copy(found.scores.begin(), found.scores.end(), to.scores);
  if (found.keypoints) std::copy(found.points.begin(), found.points.end(), to.points);
}

Boxes boxes_of(const float* boxes, size_t count) {
  if (count > kMost) refuse("count: expected %zu or fewer, got %zu", kMost, count);
  given(boxes, count, "boxes");
  all_finite(boxes, 4 * count, "boxes");
  Boxes all(count);
  for (size_t i = 0; i < count; ++i) std::copy_n(boxes + 4 * i, 4, all[i].begin());
  return all;
}

std::vector<float> scores_of(const float* scores, size_t count) {
  all_finite(given(scores, count, "scores"), count, "scores");
  return {scores, scores + count};
}

}  // namespace

palm_kits_status palm_kits_decode(const palm_kits_head* heads, size_t head_count, double min_score,
                                  palm_kits_detections* detections) {
  return guarded([&] {
    check_buffers(detections);
    given(heads, head_count, "heads"), between(min_score, 0, 1, "min_score");
    Candidates found{keypoints_of(*detections), {}, {}, {}};
    for (size_t i = 0; i < head_count; ++i) {
      const palm_kits_head& from = heads[i];
      const bool fits = from.stride > 0 && from.stride <= 4096 && from.width > 0 &&
                        from.width <= 16384 && from.height > 0 && from.height <= 16384;
      if (!fits) {
        refuse("heads: expected a stride of 1 to 4096 and sides of 1 to 16384, got %d, %d, %d",
               from.stride, from.width, from.height);
      }
      given(from.scores, "scores"), given(from.boxes, "boxes");
      given(from.points, found.keypoints, "points");
      decode({from.stride, from.width, from.height, from.scores, from.boxes, from.points},
             static_cast<float>(min_score), found);
    }
    put(found, *detections);
  });
}

palm_kits_status palm_kits_merge(palm_kits_detections* detections) {
  return guarded([&] {
    check_buffers(detections);
    const size_t count = detections->list.count;
    if (count > detections->list.room)
      refuse("detections: expected as many as there is room for, %zu, got %zu",
             detections->list.room, count);
    Candidates found{keypoints_of(*detections),
                     boxes_of(detections->boxes, count),
                     scores_of(detections->scores, count),
                     {}};
    const size_t numbers = 2 * found.keypoints * count;
    if (numbers) {
      all_finite(detections->points, numbers, "points");
      found.points.assign(detections->points, detections->points + numbers);
    }
    put(merged(found), *detections);
  });
}

palm_kits_status palm_kits_nms(const float* boxes, const float* scores, size_t count,
                               double max_iou, const float* values, size_t width, double blend_iou,
                               size_t* rows, float* means, size_t* kept) {
  return guarded([&] {
    *given(kept, "kept") = 0;
    between(max_iou, 0, 1, "max_iou"), between(blend_iou, 0, 1, "blend_iou");
    if (width > 4096) refuse("width: expected 4096 or fewer, got %zu", width);
    const size_t numbers = values ? width : 0;
    const Boxes all = boxes_of(boxes, count);
    const std::vector<float> sure = scores_of(scores, count);
    given(rows, count, "rows"), given(means, count * numbers, "means");
    std::vector<float> also;
    if (numbers && count) {
      all_finite(values, count * numbers, "values");
      also.assign(values, values + count * numbers);
    }
    const Kept found = weighted_nms(all, sure, also, numbers, static_cast<float>(max_iou),
                                    numbers ? static_cast<float>(blend_iou) : 1.f);
    std::copy(found.rows.begin(), found.rows.end(), rows);
    if (numbers) std::copy(found.means.begin(), found.means.end(), means);
    *kept = found.rows.size();
  });
}
