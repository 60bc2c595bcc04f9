#pragma once
// Rotated squares of a picture, as palmkit.kits.crop, and where those of faces and hands lie.
#include <array>
#include <complex>

#include "image.h"
#include "warp.h"

namespace palm_kits {

constexpr size_t kMeshPoints = 478, kFirstIris = 468, kLandmarks = 21;

// x, y: its middle, side: in pixels; angle: of its content, clockwise in radians.
struct Crop {
  double x, y, side, angle;

  // From the picture to the crop drawn `size` wide, and back.
  Matrix matrix(double size) const;
  Matrix back(double size) const;
  // points of `dims` numbers each, 2 or 3; z is scaled as x and y are.
  void to_picture(float* points, size_t count, size_t dims) const;
  void to_crop(float* points, size_t count, size_t dims) const;
};

inline bool operator==(const Crop& a, const Crop& b) {
  return a.x == b.x && a.y == b.y && a.side == b.side && a.angle == b.angle;
}

Picture sample(View image, const Crop& crop, int size);

// box: x, y, width, height.
Crop face_crop(const float* keypoints, const std::array<double, 4>& box);
Crop mesh_crop(const float* points);
Crop hand_crop(const float* keypoints, const std::array<double, 4>& box);
Crop landmarks_crop(const float* landmarks);
double palm_size(const float* landmarks);

// How far two crops may differ: in place by sides, in scale as a logarithm, in angle.
struct Limits {
  double shift, scale, turn;
};
constexpr Limits kStill{0.02, 0.03, 0.02}, kAstray{0.08, 0.14, 0.17};
bool is_off(const Crop& crop, const Crop& other, const Limits& limits);
// The crop for the next frame: the same while what it shows hardly moves.
Crop settled(const Crop& crop, const Crop& following);

// A motion of the picture: x + yi comes to turn * (x + yi) + shift.
struct Similarity {
  std::complex<double> turn{1, 0}, shift{0, 0};

  bool is_still() const { return turn == 1.0 && shift == 0.0; }
  Similarity after(const Similarity& other) const {
    return {turn * other.turn, turn * other.shift + shift};
  }
  Similarity inverse() const { return {1.0 / turn, -shift / turn}; }
  std::array<double, 4> box(const std::array<double, 4>& box) const;
  Crop crop(const Crop& crop) const;
  void points_in_space(float* points, size_t count) const;
};

}  // namespace palm_kits
