#include "crop.h"

#include <algorithm>
#include <cmath>

#include "resize.h"

namespace palm_kits {
namespace {

// By the numbers of palmkit.kits.face.crop and palmkit.kits.hands.crop.
constexpr double kFaceMargin = 1.5, kHandMargin = 1.45, kPalmMargin = 2.5, kDiagonal = 0.25;
constexpr int kEyes[2][2] = {{362, 263},
                             {33, 133}};  // corners of the left eye, and of the right one
constexpr double kXWeights[] = {-0.58, 0.70, 0.18}, kYWeights[] = {-0.60, -0.02, 0.77};
constexpr double kSideWeights[] = {1.56, 0.50, 0.17};
constexpr int kWrist = 0, kMiddleBase = 9;
struct Span {
  int from, to;
  double share;
};
constexpr Span kPalmSpans[] = {{0, 9, 1.0}, {0, 5, 1.0}, {0, 17, 1.08}, {5, 17, 1.55}};

void map(const Matrix& m, double scale, float* points, size_t count, size_t dims) {
  for (size_t i = 0; i < count; ++i, points += dims) {
    const double x = points[0], y = points[1];
    points[0] = static_cast<float>(m.a * x + m.b * y + m.c);
    points[1] = static_cast<float>(m.d * x + m.e * y + m.f);
    if (dims == 3) points[2] = static_cast<float>(points[2] * scale);
  }
}

double weighted(const double (&weights)[3], double a, double b, double c) {
  return weights[0] * a + weights[1] * b + weights[2] * c;
}

// The middle and the larger side of the upright box round points, as they stand turned back.
struct Upright {
  double x, y, side;
};
Upright upright(const float* points, size_t count, size_t step, double angle) {
  const double cos = std::cos(angle), sin = std::sin(angle);
  double low[2] = {HUGE_VAL, HUGE_VAL}, high[2] = {-HUGE_VAL, -HUGE_VAL};
  for (size_t i = 0; i < count; ++i) {
    const double x = points[i * step], y = points[i * step + 1];
    const double at[2] = {cos * x + sin * y, -sin * x + cos * y};
    for (int k : {0, 1}) low[k] = std::min(low[k], at[k]), high[k] = std::max(high[k], at[k]);
  }
  const double x = (low[0] + high[0]) / 2, y = (low[1] + high[1]) / 2;
  return {cos * x - sin * y, sin * x + cos * y, std::max(high[0] - low[0], high[1] - low[1])};
}

double distance(const float* a, const float* b) {
  return std::hypot(static_cast<double>(a[0]) - b[0], static_cast<double>(a[1]) - b[1]);
}

double hand_angle(const float* wrist, const float* middle) {
  return std::atan2(static_cast<double>(middle[0]) - wrist[0],
                    -(static_cast<double>(middle[1]) - wrist[1]));
}

}  // namespace

Matrix Crop::matrix(double size) const {
  const double scale = size / side, c = std::cos(angle) * scale, s = std::sin(angle) * scale;
  return {c, s, size / 2 - c * x - s * y, -s, c, size / 2 + s * x - c * y};
}

Matrix Crop::back(double size) const {
  const double scale = side / size, c = std::cos(angle) * scale, s = std::sin(angle) * scale;
  const double half = size / 2;
  return {c, -s, x - (c - s) * half, s, c, y - (s + c) * half};
}

void Crop::to_picture(float* points, size_t count, size_t dims) const {
  map(back(1), side, points, count, dims);
}

void Crop::to_crop(float* points, size_t count, size_t dims) const {
  map(matrix(1), 1 / side, points, count, dims);
}

Picture sample(View image, const Crop& crop, int size) {
  Picture drawn(size, size);
  const double reach =
      crop.side / 2 * (std::abs(std::cos(crop.angle)) + std::abs(std::sin(crop.angle))) + 2;
  const auto within = [](double at, int length) {
    return static_cast<int>(std::min(std::max(at, 0.0), static_cast<double>(length)));
  };
  const int left = within(std::trunc(crop.x - reach), image.width);
  const int top = within(std::trunc(crop.y - reach), image.height);
  const int right = within(std::ceil(crop.x + reach), image.width);
  const int bottom = within(std::ceil(crop.y + reach), image.height);
  if (left >= right || top >= bottom) return drawn;
  View part = image.part(left, top, right, bottom);
  Matrix m = crop.matrix(size);
  m.c += m.a * left + m.b * top, m.f += m.d * left + m.e * top;
  Picture kept;
  for (double shrink = crop.side / size; shrink >= 2 && std::min(part.width, part.height) >= 2;
       shrink /= 2) {
    Picture half(part.width / 2, part.height / 2);
    resize_area<uint8_t, 3>(part.part(0, 0, 2 * half.width(), 2 * half.height()), half.rows());
    kept = std::move(half), part = kept;
    m.a *= 2, m.b *= 2, m.d *= 2, m.e *= 2;
  }
  // Places are counted from the middles of pixels.
  m.c += (m.a + m.b) * 0.5 - 0.5, m.f += (m.d + m.e) * 0.5 - 0.5;
  warp(part, inverse(m), drawn.rows());
  return drawn;
}

Crop face_crop(const float* keypoints, const std::array<double, 4>& box) {
  using Point = std::complex<double>;
  const auto at = [&](int i) { return Point(keypoints[2 * i], keypoints[2 * i + 1]); };
  const Point eyes = (at(0) + at(1)) / 2.0, mouth = (at(3) + at(4)) / 2.0;
  const Point apart = at(0) - at(1), down = mouth - eyes;
  // The eyes come close in profile and say little then; the way down to the mouth does not.
  const Point level = apart - Point(0, 0.5) * down;
  const double angle = std::atan2(level.imag(), level.real());
  const Point turn(std::cos(angle), std::sin(angle));
  const Point centre(box[0] + box[2] / 2, box[1] + box[3] / 2);
  const Point nose = (at(2) - eyes) * std::conj(turn), middle = (centre - eyes) * std::conj(turn),
              below = down * std::conj(turn);
  const double x = weighted(kXWeights, nose.real(), middle.real(), below.real());
  const double y = weighted(kYWeights, nose.imag(), middle.imag(), below.imag());
  const double side =
      weighted(kSideWeights, std::abs(down), std::abs(apart), std::max(box[2], box[3]));
  const Point start = Point(x, y) * turn + eyes;
  return {start.real(), start.imag(), std::max(side, 1.0) * kFaceMargin, angle};
}

Crop mesh_crop(const float* points) {
  const auto sum = [&](int eye, size_t axis) {
    return static_cast<double>(points[3 * kEyes[eye][0] + static_cast<int>(axis)]) +
           points[3 * kEyes[eye][1] + static_cast<int>(axis)];
  };
  const double angle = std::atan2(sum(0, 1) - sum(1, 1), sum(0, 0) - sum(1, 0));
  const Upright level = upright(points, kFirstIris, 3, angle);
  return {level.x, level.y, std::max(level.side, 1.0) * kFaceMargin, angle};
}

Crop hand_crop(const float* keypoints, const std::array<double, 4>& box) {
  const double angle = hand_angle(keypoints, keypoints + 2);
  // An upright box grows as the hand in it turns to the diagonal.
  const double longest = std::max(box[2], box[3]) / (1 + kDiagonal * std::abs(std::sin(2 * angle)));
  const double palm = distance(keypoints, keypoints + 2);
  const double side = std::max(std::max(kHandMargin * longest, kPalmMargin * palm), 1.0);
  return {box[0] + box[2] / 2, box[1] + box[3] / 2, side, angle};
}

Crop landmarks_crop(const float* landmarks) {
  const double angle = hand_angle(landmarks + 3 * kWrist, landmarks + 3 * kMiddleBase);
  const Upright level = upright(landmarks, kLandmarks, 3, angle);
  const double side =
      std::max(std::max(kHandMargin * level.side, kPalmMargin * palm_size(landmarks)), 1.0);
  return {level.x, level.y, side, angle};
}

double palm_size(const float* landmarks) {
  double longest = 0;
  for (const Span& each : kPalmSpans)
    longest = std::max(longest,
                       distance(landmarks + 3 * each.from, landmarks + 3 * each.to) * each.share);
  return longest;
}

bool is_off(const Crop& crop, const Crop& other, const Limits& limits) {
  constexpr double kTurn = 6.283185307179586;
  return std::hypot(other.x - crop.x, other.y - crop.y) / crop.side > limits.shift ||
         std::abs(std::log(other.side / crop.side)) > limits.scale ||
         std::abs(std::remainder(other.angle - crop.angle, kTurn)) > limits.turn;
}

Crop settled(const Crop& crop, const Crop& following) {
  return is_off(crop, following, kStill) ? following : crop;
}

std::array<double, 4> Similarity::box(const std::array<double, 4>& box) const {
  if (is_still()) return box;
  const std::complex<double> middle((box[0] + box[2]) / 2, (box[1] + box[3]) / 2);
  const std::complex<double> to = turn * middle + shift;
  const double zoom = std::abs(turn) / 2;
  const double x = (box[2] - box[0]) * zoom, y = (box[3] - box[1]) * zoom;
  return {to.real() - x, to.imag() - y, to.real() + x, to.imag() + y};
}

Crop Similarity::crop(const Crop& crop) const {
  if (is_still()) return crop;
  const std::complex<double> to = turn * std::complex<double>(crop.x, crop.y) + shift;
  return {to.real(), to.imag(), crop.side * std::abs(turn), crop.angle + std::arg(turn)};
}

void Similarity::points_in_space(float* points, size_t count) const {
  const auto a = static_cast<float>(turn.real()), b = static_cast<float>(turn.imag());
  const auto zoom = static_cast<float>(std::abs(turn));
  const auto x = static_cast<float>(shift.real()), y = static_cast<float>(shift.imag());
  for (size_t i = 0; i < count; ++i, points += 3) {
    const float at_x = points[0], at_y = points[1];
    points[0] = a * at_x - b * at_y + x, points[1] = b * at_x + a * at_y + y;
    points[2] *= zoom;
  }
}

}  // namespace palm_kits
