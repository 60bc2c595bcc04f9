#pragma once
// What steadies values from frame to frame, as palmkit.kits.tracks and face.smoothing.
#include <array>
#include <cstddef>
#include <vector>

namespace palm_kits {

// The weight of a new value in a first-order low pass.
double low_pass(double cutoff_hz, double step_s);

// Time that only goes forward, from timestamps that may be missing (NaN), repeat or jump back.
class Clock {
 public:
  double tick(double timestamp_ms);

 private:
  double time_s_ = 0, step_s_ = 1.0 / 30, last_ms_ = 0;
  bool has_last_ = false;
};

// Casiez, Roussel, Vogel: 1 Euro Filter, CHI 2012; each value has its own.
class OneEuro {
 public:
  explicit OneEuro(double min_cutoff_hz = 1.5, double beta = 8, double speed_cutoff_hz = 1)
      : min_cutoff_hz_(min_cutoff_hz), beta_(beta), speed_cutoff_hz_(speed_cutoff_hz) {}

  // Whether so many values at this time may come next.
  bool takes(size_t count, double time_s) const {
    return !has_last_ || (count == last_.size() && time_s > last_s_);
  }
  // size: of the object, in the values' unit.
  void filter(const double* values, size_t count, double time_s, double size, float* to);
  void filter(const float* values, size_t count, double time_s, double size, float* to);

 private:
  double min_cutoff_hz_, beta_, speed_cutoff_hz_, last_s_ = 0;
  bool has_last_ = false;
  std::vector<double> last_, speeds_;
};

// Position, size and rotation of a face are smoothed little, what is left, its shape, more.
class MeshFilter {
 public:
  bool takes(double time_s) const {
    return shape_.takes(0, time_s) || shape_.takes(3 * 478, time_s);
  }
  // points: 478 of x, y, z; `to` may be the same.
  void filter(const float* points, double time_s, float* to);

 private:
  OneEuro place_{2, 20, 2}, turn_{1.5, 10, 2}, shape_{1, 30, 3};
  double angle_ = 0;
};

// The point that takes each one's place when a picture is mirrored.
const std::array<int, 478>& mesh_mirror();

// The gesture of a hand over time: one counts once it has been the likeliest for hold_s.
class GestureFilter {
 public:
  GestureFilter(size_t rest, double hold_s) : shown_(rest), best_(rest), hold_s_(hold_s) {}
  // Index of the gesture at this time; its mean probability goes to `score`.
  size_t update(const std::vector<float>& gestures, double time_s, float* score);

 private:
  size_t shown_, best_;
  double hold_s_, last_s_ = 0, since_s_ = 0;
  std::vector<double> mean_;
};

}  // namespace palm_kits
