// The calls of palm_kits.h that fit pictures and draw crops.
#include <algorithm>

#include "calls.h"
#include "closeup.h"
#include "resize.h"

using namespace palm_kits;

namespace {

void give(const Crop& crop, palm_kits_crop* to) {
  *given(to, "crop") = {crop.x, crop.y, crop.side, crop.angle};
}

std::array<double, 4> sides_of(const float* box) {
  all_finite(given(box, "box"), 4, "box");
  return {box[0], box[1], box[2], box[3]};
}

const float* points_of(const float* points, size_t numbers) {
  all_finite(given(points, "points"), numbers, "points");
  return points;
}

size_t dims_of(int32_t dims) {
  if (dims != 2 && dims != 3) refuse("dims: expected 2 or 3, got %d", dims);
  return static_cast<size_t>(dims);
}

}  // namespace

palm_kits_status palm_kits_letterbox(const palm_kits_image* image, const palm_kits_part* part,
                                     double max_scale, const palm_kits_input* input,
                                     palm_kits_placement* placement) {
  return guarded([&] {
    const Pixels pixels(image);
    check(input), above_zero(max_scale, "max_scale"), given(placement, "placement");
    const Fitted fitted = letterbox(pixels.view(), clipped(part, pixels.view()), input->width,
                                    input->height, max_scale);
    put(fitted.canvas, *input);
    *placement = fitted.placement;
  });
}

palm_kits_status palm_kits_stretch(const palm_kits_image* image, const palm_kits_part* part,
                                   const palm_kits_input* input) {
  return guarded([&] {
    const Pixels pixels(image);
    check(input);
    const View picture = part_of(pixels.view(), clipped(part, pixels.view()));
    put(resize(picture, input->width, input->height), *input);
  });
}

palm_kits_status palm_kits_shrink(const palm_kits_image* image, const palm_kits_part* part,
                                  const palm_kits_input* input) {
  return guarded([&] {
    const Pixels pixels(image);
    check(input);
    if (input->width != input->height)
      refuse("input: expected a square, got %dx%d", input->width, input->height);
    put(shrink(part_of(pixels.view(), clipped(part, pixels.view())), input->width), *input);
  });
}

palm_kits_status palm_kits_to_picture(const palm_kits_placement* placement, float* points,
                                      size_t count) {
  return guarded([&] {
    above_zero(given(placement, "placement")->scale_x, "scale_x");
    above_zero(placement->scale_y, "scale_y");
    finite(placement->shift_x, "shift_x"), finite(placement->shift_y, "shift_y");
    to_picture(*placement, given(points, count, "points"), count);
  });
}

palm_kits_status palm_kits_crop_draw(const palm_kits_image* image, const palm_kits_crop* crop,
                                     int32_t is_mirrored, const palm_kits_input* input) {
  return guarded([&] {
    const Pixels pixels(image);
    const Crop at = crop_of(crop);
    check(input);
    if (input->width != input->height)
      refuse("input: expected a square, got %dx%d", input->width, input->height);
    if (is_mirrored != 0 && is_mirrored != 1)
      refuse("is_mirrored: expected 0 or 1, got %d", is_mirrored);
    Picture drawn = sample(pixels.view(), at, input->width);
    if (is_mirrored) flip(drawn);
    put(drawn, *input);
  });
}

palm_kits_status palm_kits_crop_to_picture(const palm_kits_crop* crop, float* points, size_t count,
                                           int32_t dims) {
  return guarded([&] {
    const Crop at = crop_of(crop);
    const size_t numbers = dims_of(dims);
    at.to_picture(given(points, count, "points"), count, numbers);
  });
}

palm_kits_status palm_kits_crop_from_picture(const palm_kits_crop* crop, float* points,
                                             size_t count, int32_t dims) {
  return guarded([&] {
    const Crop at = crop_of(crop);
    const size_t numbers = dims_of(dims);
    at.to_crop(given(points, count, "points"), count, numbers);
  });
}

palm_kits_status palm_kits_face_crop(const float keypoints[10], const float box[4],
                                     palm_kits_crop* crop) {
  return guarded([&] { give(face_crop(points_of(keypoints, 10), sides_of(box)), crop); });
}

palm_kits_status palm_kits_mesh_crop(const float points[1434], palm_kits_crop* crop) {
  return guarded([&] { give(mesh_crop(points_of(points, 3 * kMeshPoints)), crop); });
}

palm_kits_status palm_kits_hand_crop(const float keypoints[4], const float box[4],
                                     palm_kits_crop* crop) {
  return guarded([&] { give(hand_crop(points_of(keypoints, 4), sides_of(box)), crop); });
}

palm_kits_status palm_kits_landmarks_crop(const float landmarks[63], palm_kits_crop* crop) {
  return guarded([&] { give(landmarks_crop(points_of(landmarks, 3 * kLandmarks)), crop); });
}
