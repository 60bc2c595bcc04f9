#include <cmath>

#include "tracker.h"

namespace palm_kits {
namespace {

// These are the numbers of palmkit.kits.tracks, which says what each means.
constexpr double kAtRest = 1.0, kRestedS = 0.2, kStanding = 0.1, kAbsent = 0.2;
constexpr double kSpeedCutoffHz = 3.0, kShrunk = 0.93, kMemoryS = 1.0, kMisleadingS = 0.2;
constexpr double kSteady = 0.98;
constexpr size_t kMinPlaces = 3, kMaxPlaces = 128;

double area_of(const Place& box) {
  return std::max(box[2] - box[0], 0.0) * std::max(box[3] - box[1], 0.0);
}

}  // namespace

Tracked::Tracked(int64_t id_, const Place& box_, double time_s)
    : id(id_), box(box_), seen_s(time_s), placed_s(time_s), first_s(time_s) {}

Place Tracked::predicted(double time_s) const {
  const auto [from, fast] = whole();
  return moved(from, fast, time_s);
}

bool Tracked::is_at_rest() const {
  if (places_.empty() || places_.back().time_s - places_.front().time_s < kRestedS) return false;
  const Seen &first = places_.front(), &last = places_.back();
  const double x = (last.box[0] + last.box[2] - first.box[0] - first.box[2]) / 2;
  const double y = (last.box[1] + last.box[3] - first.box[1] - first.box[3]) / 2;
  return std::hypot(x, y) / (last.time_s - first.time_s) <= kAtRest * std::sqrt(last.area);
}

double Tracked::preference(double last_s) const {
  const double standing = kStanding * std::min(seen_s - first_s, 1.0);
  return seen_s == last_s ? standing : standing - kAbsent;
}

std::array<Place, 3> Tracked::alternatives(double time_s) const {
  const Place on = moved(box, speed, time_s);
  return {predicted(time_s), on, is_at_rest() ? box : on};
}

Place Tracked::moved(const Place& from, const Place& fast, double time_s) const {
  const double way_s = behind_s + 0.5 * (1 - std::exp(-lost_s(time_s) / 0.5));
  Place to;
  for (size_t i = 0; i < 4; ++i) to[i] = from[i] + fast[i] * way_s;
  return to;
}

void Tracked::go_on(double time_s) {
  const Place fast = whole().second;
  box = predicted(time_s), speed = fast;
  seen_s = time_s, behind_s = outside_s = 0;
}

void Tracked::move(const Place& to, double time_s) {
  const double step_s = time_s - seen_s, weight = low_pass(kSpeedCutoffHz, step_s);
  Place way;
  for (size_t i = 0; i < 4; ++i) way[i] = to[i] - box[i];
  for (size_t i = 0; i < 4; ++i)
    speed[i] += weight * ((way[i] + way[(i + 2) % 4]) / 2 / step_s - speed[i]);
  box = to, behind_s = outside_s = 0;
  seen_s = placed_s = time_s;
  places_.push_back({time_s, to, area_of(to)});
  if (places_.size() > kMaxPlaces) places_.pop_front();
  while (places_.front().time_s < time_s - kMemoryS) places_.pop_front();
}

std::pair<Place, Place> Tracked::whole() const {
  const double until_s = placed_s - kMisleadingS;
  size_t early = 0, late = 0;
  double largest_early = 0, largest_late = 0, least_late = HUGE_VAL;
  for (const Seen& each : places_) {
    if (each.time_s <= until_s) {
      ++early, largest_early = std::max(largest_early, each.area);
    } else {
      ++late, largest_late = std::max(largest_late, each.area);
      least_late = std::min(least_late, each.area);
    }
  }
  if (early < kMinPlaces) return {box, speed};
  // Nothing passes in front of what keeps its size, or is as large as ever.
  const bool is_steady = late > kMinPlaces && least_late >= kSteady * kSteady * largest_late;
  const double own = area_of(box), least = kShrunk * kShrunk * largest_early;
  const bool may_vanish = behind_s > 0;
  if (is_steady || (own > least && !may_vanish)) return {box, speed};
  std::vector<const Seen*> shown;
  for (const Seen& each : places_)
    if (each.time_s <= until_s && each.area >= least) shown.push_back(&each);
  const auto count = static_cast<double>(shown.size());
  Place mean{};
  double mean_s = 0;
  for (const Seen* each : shown) {
    mean_s += each->time_s;
    for (size_t i = 0; i < 4; ++i) mean[i] += each->box[i];
  }
  mean_s /= count;
  for (double& each : mean) each /= count;
  // What is about to vanish behind something may be taken for a part of that.
  const bool is_whole = own > kShrunk * kShrunk * area_of(mean) && !may_vanish;
  if (shown.size() < kMinPlaces || is_whole) return {box, speed};
  double x = 0, y = 0, spread = 0;
  for (const Seen* each : shown) {
    const double off = each->time_s - mean_s;
    x += off * (each->box[0] + each->box[2]) / 2, y += off * (each->box[1] + each->box[3]) / 2;
    spread += off * off;
  }
  spread = std::max(spread, 1e-9);
  const Place fast{x / spread, y / spread, x / spread, y / spread};
  for (size_t i = 0; i < 4; ++i) mean[i] += fast[i] * (seen_s - mean_s);
  return {mean, fast};
}

}  // namespace palm_kits
