#include "tracker.h"

#include <cmath>
#include <limits>

namespace palm_kits {
namespace {

// These are the numbers of palmkit.kits.tracks, which says what each means.
constexpr double kRestS = 3.0, kCovered = 0.5, kBehindS = 3.0, kOutside = 0.5, kOutsideS = 10.0;
constexpr double kMaxSizeRatio = 2.5;
constexpr float kMinFit = -0.25f, kNearFit = 0.25f, kGoodFit = 0.5f;

Place exact(const Corners<float>& box) { return {box[0], box[1], box[2], box[3]}; }

Corners<float> single(const Place& box) {
  return {static_cast<float>(box[0]), static_cast<float>(box[1]), static_cast<float>(box[2]),
          static_cast<float>(box[3])};
}

// The geometric mean of the sides, at least a pixel.
double size_of(const Place& box) {
  return std::sqrt(std::max(box[2] - box[0], 1.0) * std::max(box[3] - box[1], 1.0));
}

float fit_of(const Place& box, const Place& place) {
  const double ratio = std::log(size_of(box)) - std::log(size_of(place));
  return std::abs(ratio) > std::log(kMaxSizeRatio) ? -1.f : distance_iou(box, place);
}

}  // namespace

void Tracker::look_from(const Similarity& view, int width, int height) {
  view_ = view, width_ = width, height_ = height;
}

Boxes Tracker::predict(double time_s) {
  forget(time_s);
  Boxes boxes;
  for (const Tracked& each : tracks_)
    if (each.seen_s == time_s_) boxes.push_back(single(view_.box(each.predicted(time_s))));
  return boxes;
}

bool Tracker::is_waiting() const {
  for (const Tracked& each : tracks_)
    if (each.seen_s < time_s_ && each.lost_s(time_s_) <= kLostS && !is_outside(each)) return true;
  return false;
}

std::vector<int64_t> Tracker::update(const Boxes& boxes, const std::vector<char>& sure,
                                     double time_s) {
  forget(time_s);
  const Similarity back = view_.is_still() ? view_ : view_.inverse();
  std::vector<Place> placed;
  for (const Corners<float>& each : boxes) placed.push_back(back.box(exact(each)));
  std::vector<int64_t> ids(boxes.size(), -1);
  for (const Pair& pair : pairs(placed, sure, time_s)) {
    Tracked& track = tracks_[pair.track];
    ids[pair.box] = track.id;
    // What comes out from behind something is at first seen in part.
    const bool was_whole = track.placed_s == time_s_;
    if (sure[pair.box] || (pair.fit >= kGoodFit && was_whole)) track.move(placed[pair.box], time_s);
    else track.go_on(time_s);
  }
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 || !sure[i]) continue;
    ids[i] = next_id_++;
    tracks_.emplace_back(ids[i], placed[i], time_s);
  }
  std::vector<Place> seen;
  for (size_t i = 0; i < ids.size(); ++i)
    if (ids[i] >= 0) seen.push_back(placed[i]);
  wait(seen, time_s);
  time_s_ = time_s;
  return ids;
}

bool Tracker::smooth(const std::vector<int64_t>& ids, float* values, size_t count,
                     const float* sizes) {
  std::vector<Tracked*> found;
  for (int64_t id : ids) {
    const auto track = std::find_if(tracks_.begin(), tracks_.end(),
                                    [&](const Tracked& each) { return each.id == id; });
    if (track == tracks_.end() || !track->smoothing.takes(count, time_s_)) return false;
    if (std::find(found.begin(), found.end(), &*track) != found.end()) return false;
    found.push_back(&*track);
  }
  for (size_t i = 0; i < found.size(); ++i)
    found[i]->smoothing.filter(values + i * count, count, time_s_, static_cast<double>(sizes[i]),
                               values + i * count);
  return true;
}

void Tracker::forget(double time_s) {
  const auto is_over = [&](const Tracked& each) {
    const double lost_s = each.lost_s(time_s);
    const bool waits = lost_s <= max_lost_s_ || (lost_s <= kRestS && each.is_at_rest());
    return each.behind_s > kBehindS || each.outside_s > kOutsideS || !waits;
  };
  tracks_.erase(std::remove_if(tracks_.begin(), tracks_.end(), is_over), tracks_.end());
}

void Tracker::wait(const std::vector<Place>& seen, double time_s) {
  for (Tracked& each : tracks_) {
    if (each.seen_s == time_s) continue;
    if (is_outside(each)) {
      each.outside_s += time_s - time_s_;
      continue;
    }
    const Place box = each.predicted(time_s);
    double covered = -1;
    for (const Place& other : seen) covered = std::max(covered, shared_area(box, other));
    if (covered >= kCovered * static_cast<double>(area(box))) each.behind_s += time_s - time_s_;
  }
}

bool Tracker::is_outside(const Tracked& track) const {
  if (!width_) return false;
  const Place box = view_.box(track.box);
  Place inside;
  for (size_t i = 0; i < 4; ++i)
    inside[i] = std::min(std::max(box[i], 0.0), static_cast<double>(i % 2 ? height_ : width_));
  // Python clips to numbers of single precision.
  const Corners<float> within = single(inside);
  return area(within) < static_cast<float>(kOutside) * area(box);
}

std::vector<Tracker::Pair> Tracker::pairs(const std::vector<Place>& boxes,
                                          const std::vector<char>& sure, double time_s) const {
  const size_t rows = boxes.size(), columns = tracks_.size();
  std::vector<Pair> found;
  if (!rows || !columns) return found;
  std::vector<float> whole(rows * columns), last(rows * columns);
  std::vector<char> near_row(rows), near_column(columns);
  for (size_t column = 0; column < columns; ++column) {
    const std::array<Place, 3> places = tracks_[column].alternatives(time_s);
    for (size_t row = 0; row < rows; ++row) {
      const size_t at = row * columns + column;
      whole[at] = fit_of(boxes[row], places[0]);
      last[at] = std::max(fit_of(boxes[row], places[1]), fit_of(boxes[row], places[2]));
      if (last[at] >= kNearFit) near_row[row] = near_column[column] = 1;
    }
  }
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  std::vector<float> fits(rows * columns), order(rows * columns);
  for (size_t row = 0; row < rows; ++row) {
    for (size_t column = 0; column < columns; ++column) {
      const size_t at = row * columns + column;
      // Where a thing was last seen is surer than where it must have been if it is partly hidden.
      if (near_row[row] || near_column[column]) whole[at] = -1;
      fits[at] = std::max(last[at], whole[at]);
      const Tracked& track = tracks_[column];
      const float least = track.lost_s(time_s) > kLostS ? kNearFit : sure[row] ? kMinFit : 0.f;
      order[at] =
          fits[at] < least ? kNever : fits[at] + static_cast<float>(track.preference(time_s_));
    }
  }
  for (;;) {
    const auto best = std::max_element(order.begin(), order.end());
    if (!(*best > kNever)) return found;
    const auto at = static_cast<size_t>(best - order.begin());
    const size_t row = at / columns, column = at % columns;
    found.push_back({row, column, fits[at]});
    for (size_t i = 0; i < columns; ++i) order[row * columns + i] = kNever;
    for (size_t i = 0; i < rows; ++i) order[i * columns + column] = kNever;
  }
}

}  // namespace palm_kits
