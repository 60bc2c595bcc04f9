#include "hands_in_front.h"

#include <algorithm>
#include <cmath>

#include "crop.h"
#include "drawing.h"
#include "gaussian.h"
#include "regions.h"

namespace palm_kits {
namespace {

// These are the numbers of palmkit.kits.tryon.hands, which says what each means.
constexpr float kAround = 0.8f;
constexpr double kFinger = 0.26, kEdge = 0.02, kMostCovered = 0.25, kSeen = 0.95;
constexpr size_t kPalm[] = {0, 1, 5, 9, 13, 17};
constexpr size_t kFingers[5][4] = {
    {1, 2, 3, 4}, {5, 6, 7, 8}, {9, 10, 11, 12}, {13, 14, 15, 16}, {17, 18, 19, 20}};

// Palm and fingers, as thick as fingers.
Mask hand_mask(View image, const palm_kits_hand& hand) {
  const double palm = palm_size(&hand.landmarks[0][0]);
  const int most = std::max(image.width, image.height);
  const int thick = clamped(rounded(std::min(kFinger * palm, 1e6)), 1, most);
  Line line;
  for (const float* point : hand.landmarks) line.push_back({point[0], point[1]});
  const Polygon points = fixed(line);
  Polygon of_palm;
  for (size_t i : kPalm) of_palm.push_back(points[i]);
  of_palm = hull(of_palm);
  Bytes drawn(image.width, image.height);
  fill(drawn, {of_palm}, 1);
  for (size_t i = 0; i < of_palm.size(); ++i)
    draw_line(drawn, of_palm[i], of_palm[(i + 1) % of_palm.size()], thick, 1);
  for (const size_t (&finger)[4] : kFingers)
    for (size_t i = 0; i < 3; ++i)
      draw_line(drawn, points[finger[i]], points[finger[i + 1]], thick, 1);
  Mask mask(image.width, image.height);
  for (size_t i = 0; i < mask.size(); ++i) mask.data()[i] = drawn.data()[i];
  return soften(mask, kEdge * palm);
}

// Whether a supposed hand is a face: it covers much of it, and the mesh sees it all.
bool is_the_face(const Mask& mask, const palm_kits_mesh& mesh) {
  size_t under = 0;
  double seen = 0;
  for (size_t i = 0; i < kMeshPoints; ++i) {
    const auto place = [&](int axis, int length) {
      const float at = std::min(std::max(mesh.points[i][axis], 0.f), static_cast<float>(length));
      return std::min(static_cast<int>(at), length - 1);
    };
    if (!(mask.row(place(1, mask.height()))[place(0, mask.width())] > 0.5f)) continue;
    ++under, seen += mesh.visibility[i];
  }
  const auto count = static_cast<double>(under);
  return count / static_cast<double>(kMeshPoints) > kMostCovered && seen / count > kSeen;
}

}  // namespace

palm_kits_part part_for_hands(const Meshes& faces, const Indices& rows, const Box& area) {
  const float low[2] = {static_cast<float>(area.left), static_cast<float>(area.top)};
  const float high[2] = {static_cast<float>(area.right), static_cast<float>(area.bottom)};
  float begin[2] = {high[0], high[1]}, end[2] = {low[0], low[1]};
  for (size_t row : rows) {
    const float* const box = faces[row].face.box;
    for (size_t axis = 0; axis < 2; ++axis) {
      begin[axis] = std::min(begin[axis], box[axis] - kAround * box[axis + 2]);
      end[axis] = std::max(end[axis], box[axis] + (1 + kAround) * box[axis + 2]);
    }
  }
  double from[2], size[2];
  for (size_t axis = 0; axis < 2; ++axis) {
    from[axis] = std::floor(std::min(std::max(begin[axis], low[axis]), high[axis]));
    size[axis] = std::ceil(std::min(std::max(end[axis], low[axis]), high[axis])) - from[axis];
  }
  return {from[0], from[1], size[0], size[1]};
}

std::optional<Mask> hands_in_front(View image, const std::vector<palm_kits_hand>& hands,
                                   const Meshes& faces, const Indices& rows) {
  std::optional<Mask> found;
  for (const palm_kits_hand& hand : hands) {
    Mask mask = hand_mask(image, hand);
    if (std::any_of(rows.begin(), rows.end(),
                    [&](size_t row) { return is_the_face(mask, faces[row]); }))
      continue;
    if (!found) found = std::move(mask);
    else
      for (size_t i = 0; i < mask.size(); ++i)
        found->data()[i] = std::max(found->data()[i], mask.data()[i]);
  }
  return found;
}

}  // namespace palm_kits
