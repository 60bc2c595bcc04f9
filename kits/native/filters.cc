#include "filters.h"

#include <algorithm>
#include <cmath>

namespace palm_kits {
namespace {

constexpr double kTurn = 6.283185307179586, kFrameS = 1.0 / 30;
constexpr double kGestureS = 0.06, kMargin = 0.05;
constexpr int kPoints = 478, kFirstLeft = 248, kFirstIris = 468;

// What stays in place while a face speaks, blinks or frowns: palmkit.kits.face.pose.RIGID.
constexpr int kRigid[] = {
    168, 6,   197, 195, 5,   4,   1,   2,   98,  327, 129, 358, 48,  278, 64,  294, 122, 351, 188,
    412, 198, 420, 131, 360, 33,  263, 133, 362, 130, 359, 243, 463, 226, 446, 35,  265, 143, 372,
    111, 340, 116, 345, 123, 352, 50,  280, 101, 330, 36,  266, 118, 347, 127, 356, 234, 454, 9,
    8,   151, 10,  109, 338, 69,  299, 104, 333, 68,  298, 54,  284, 21,  251, 162, 389, 67,  297};
constexpr int kRigidCount = sizeof kRigid / sizeof *kRigid;
// palmkit.kits.face.topology.MIDLINE and MIRRORED_IRISES.
constexpr int kMidline[] = {0,  1,  2,  4,  5,  6,   8,   9,   10,  11,  12,  13,  14,  15,
                            16, 17, 18, 19, 94, 151, 152, 164, 168, 175, 195, 197, 199, 200};
constexpr int kIrises[] = {473, 476, 475, 474, 477, 468, 471, 470, 469, 472};

std::array<int, kPoints> mirror() {
  std::array<int, kPoints> order{};
  for (int i = 0; i < kPoints; ++i) order[static_cast<size_t>(i)] = i;
  int left = kFirstLeft;
  for (int right = 0; right < kFirstLeft; ++right) {
    if (std::find(std::begin(kMidline), std::end(kMidline), right) != std::end(kMidline)) continue;
    order[static_cast<size_t>(right)] = left, order[static_cast<size_t>(left)] = right;
    ++left;
  }
  std::copy(std::begin(kIrises), std::end(kIrises), order.begin() + kFirstIris);
  return order;
}

}  // namespace

double low_pass(double cutoff_hz, double step_s) {
  const double turn = cutoff_hz * (kTurn * step_s);
  return turn / (turn + 1);
}

double Clock::tick(double timestamp_ms) {
  double step_s = 0;
  if (!std::isnan(timestamp_ms)) {
    if (has_last_) step_s = (timestamp_ms - last_ms_) / 1e3;
    last_ms_ = timestamp_ms, has_last_ = true;
  }
  if (step_s > 0) step_s_ = std::min(step_s, 10 * kFrameS);
  time_s_ += step_s > 0 ? step_s : step_s_;
  return time_s_;
}

void OneEuro::filter(const double* values, size_t count, double time_s, double size, float* to) {
  if (!has_last_) {
    last_.assign(values, values + count), speeds_.assign(count, 0.0);
  } else {
    const double step_s = time_s - last_s_, weight = low_pass(speed_cutoff_hz_, step_s);
    for (size_t i = 0; i < count; ++i) {
      speeds_[i] += weight * ((values[i] - last_[i]) / step_s - speeds_[i]);
      const double cutoff_hz = min_cutoff_hz_ + beta_ * std::abs(speeds_[i]) / size;
      last_[i] += low_pass(cutoff_hz, step_s) * (values[i] - last_[i]);
    }
  }
  has_last_ = true, last_s_ = time_s;
  for (size_t i = 0; i < count; ++i) to[i] = static_cast<float>(last_[i]);
}

void OneEuro::filter(const float* values, size_t count, double time_s, double size, float* to) {
  const std::vector<double> given(values, values + count);
  filter(given.data(), count, time_s, size, to);
}

const std::array<int, 478>& mesh_mirror() {
  static const std::array<int, kPoints> order = mirror();
  return order;
}

void MeshFilter::filter(const float* points, double time_s, float* to) {
  double centre[2] = {}, across[2] = {}, spread = 0;
  for (int row : kRigid)
    for (int k : {0, 1}) centre[k] += points[3 * row + k];
  for (double& each : centre) each /= kRigidCount;
  for (int row : kRigid) {
    const int other = mesh_mirror()[static_cast<size_t>(row)];
    const double side = row == other ? 0 : row < other ? -1 : 1;
    for (int k : {0, 1}) {
      const double off = points[3 * row + k] - centre[k];
      spread += off * off, across[k] += side * points[3 * row + k];
    }
  }
  // About half of the face's width.
  const double size = std::max(std::sqrt(spread / kRigidCount), 1e-6);
  // Unwound, so that a head that turns upside down does not jump by a whole turn.
  angle_ += std::remainder(std::atan2(across[1], across[0]) - angle_, kTurn);
  const double cos = std::cos(angle_), sin = std::sin(angle_);
  std::vector<double> raw(3 * kPoints);
  for (size_t i = 0; i < kPoints; ++i) {
    const double x = points[3 * i] - centre[0], y = points[3 * i + 1] - centre[1];
    raw[3 * i] = (x * cos + y * sin) / size, raw[3 * i + 1] = (y * cos - x * sin) / size;
    raw[3 * i + 2] = points[3 * i + 2] / size;
  }
  std::vector<float> shape(raw.size());
  shape_.filter(raw.data(), raw.size(), time_s, 1, shape.data());
  float place[2], turned[2];
  place_.filter(centre, 2, time_s, size, place);
  const double moved[2] = {std::log(size), angle_};
  turn_.filter(moved, 2, time_s, 1, turned);
  const double zoom = std::exp(static_cast<double>(turned[0])), angle = turned[1];
  const double c = std::cos(angle), s = std::sin(angle);
  for (size_t i = 0; i < kPoints; ++i) {
    const double x = shape[3 * i], y = shape[3 * i + 1];
    to[3 * i] = static_cast<float>((x * c - y * s) * zoom + place[0]);
    to[3 * i + 1] = static_cast<float>((x * s + y * c) * zoom + place[1]);
    to[3 * i + 2] = static_cast<float>(shape[3 * i + 2] * zoom);
  }
}

size_t GestureFilter::update(const std::vector<float>& gestures, double time_s, float* score) {
  if (mean_.empty()) {
    mean_.assign(gestures.begin(), gestures.end());
  } else {
    const double weight = 1 - std::exp(-(time_s - last_s_) / kGestureS);
    for (size_t i = 0; i < mean_.size(); ++i) mean_[i] += weight * (gestures[i] - mean_[i]);
  }
  last_s_ = time_s;
  auto best = static_cast<size_t>(std::max_element(mean_.begin(), mean_.end()) - mean_.begin());
  if (mean_[best] < mean_[shown_] + kMargin) best = shown_;
  if (best != best_) best_ = best, since_s_ = time_s;
  // Half a millisecond for the rounding of times.
  if (time_s - since_s_ >= hold_s_ - 5e-4) shown_ = best;
  *score = static_cast<float>(mean_[shown_]);
  return shown_;
}

}  // namespace palm_kits
