#pragma once
// A detector's outputs as things, as palmkit.kits.detection.
#include <cstdint>

#include "boxes.h"

namespace palm_kits {

constexpr int kStrides[] = {8, 16, 32};
constexpr int kSideMultiple = 32;

// Things that were found, possibly one many times. keypoints: so many x, y for each, one row a
// thing.
struct Candidates {
  size_t keypoints = 0;
  Boxes boxes;
  std::vector<float> scores, points;

  size_t size() const { return scores.size(); }
  const float* points_of(size_t row) const { return points.data() + 2 * keypoints * row; }
  void add(const Corners<float>& box, float score, const float* at);
  void add(const Candidates& other);
  template <class Keep>
  Candidates take(Keep keep) const {
    Candidates taken{keypoints, {}, {}, {}};
    for (size_t row = 0; row < size(); ++row)
      if (keep(row)) taken.add(boxes[row], scores[row], points_of(row));
    return taken;
  }
};

// The three maps of one stride: a cell for each stride x stride pixels, in rows. scores: its
// chance. boxes: from the cell's middle to the left, top, right and bottom side. points: x, y from
// there.
struct Head {
  int stride, width, height;
  const float *scores, *boxes, *points;
};

// The cells that score at least min_score, in pixels of the network's input.
void decode(const Head& head, float min_score, Candidates& found);
// One row a thing, best first: the mean by score of nearly equal ones, without parts of others.
Candidates merged(const Candidates& found);

}  // namespace palm_kits
