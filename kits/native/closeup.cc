#include "closeup.h"

#include <algorithm>

#include "calls.h"

namespace palm_kits {
namespace {

// What is tracked may be this much less certain than something new before it is gone.
constexpr double kKeepPresence = 0.6;

Sight mean(const Sight& one, const Sight& other) {
  Sight both = one;
  for (size_t i = 0; i < both.points.size(); ++i)
    both.points[i] = (one.points[i] + other.points[i]) / 2;
  for (size_t i = 0; i < both.also.size(); ++i) both.also[i] = (one.also[i] + other.also[i]) / 2;
  both.presence = (one.presence + other.presence) / 2;
  both.right = (one.right + other.right) / 2;
  return both;
}

// Of known things, as they were seen before and are now, each once: where one hides another, both
// may be seen where the one in front is, which is the one that moved less.
std::vector<Sight> each_once(const std::vector<std::pair<Sight, Sight>>& followed, float same_iou) {
  std::vector<size_t> seen, kept;
  for (size_t i = 0; i < followed.size(); ++i)
    if (!followed[i].second.place) seen.push_back(i);
  const auto alike = [&](size_t a, size_t b) {
    return iou(followed[a].second.box(), followed[b].second.box()) > same_iou;
  };
  std::vector<double> stayed;
  for (size_t i : seen) stayed.push_back(iou(followed[i].first.box(), followed[i].second.box()));
  for (size_t place : falling(stayed)) {
    const size_t row = seen[place];
    const auto is_same = [&](size_t other) { return alike(row, other); };
    if (std::none_of(kept.begin(), kept.end(), is_same)) kept.push_back(row);
  }
  std::vector<Sight> found;
  for (size_t i = 0; i < followed.size(); ++i)
    if (followed[i].second.place || std::find(kept.begin(), kept.end(), i) != kept.end())
      found.push_back(followed[i].second);
  return found;
}

}  // namespace

void Sight::move(const Similarity& motion) {
  const Crop to = settled(crop, motion.crop(crop));
  if (to == crop && !place) return;
  crop = to;
  if (place) {
    const Corners<double> from{(*place)[0], (*place)[1], (*place)[2], (*place)[3]};
    const Corners<double> moved = motion.box(from);
    for (size_t i = 0; i < 4; ++i) (*place)[i] = static_cast<float>(moved[i]);
  }
  motion.points_in_space(points.data(), points.size() / 3);
}

CloseUp::CloseUp(const Options& options, const palm_kits_network* network, const char* what,
                 float same_iou)
    : options_(options), network_(network, what), side_(network_.side()), same_iou_(same_iou) {}

std::vector<Found> CloseUp::run(View image, const palm_kits_part* part,
                                const palm_kits_frame* frame) {
  const Box area = clipped(part, image);
  if (options_.is_video) return track(image, part, area, frame);
  motion_of(frame, options_);
  std::vector<Sight> sights;
  search(image, area, sights);
  std::vector<Found> found;
  for (Sight& each : sights) found.push_back({std::move(each)});
  return found;
}

bool CloseUp::may_be(double presence) const {
  return presence >= options_.min_presence * kKeepPresence;
}

void CloseUp::search(View image, const Box& area, std::vector<Sight>& found) {
  see(image, candidates(image, area), found);
}

void CloseUp::see(View image, const std::vector<Candidate>& all, std::vector<Sight>& found) {
  for (const Candidate& each : all) {
    if (is_full(found.size())) break;
    if (!is_new(each.box, found)) continue;
    std::optional<Sight> sight = infer_new(image, each.crop);
    if (!sight || sight->presence < options_.min_presence) continue;
    if (!is_wanted(image, *sight) || !is_new(sight->box(), found)) continue;
    if (!options_.is_video) sight->presence = std::min(sight->presence, each.limit);
    found.push_back(std::move(*sight));
  }
}

std::optional<Sight> CloseUp::infer_new(View image, const Crop& crop) {
  std::optional<Sight> sight = infer_well(image, crop);
  if (!sight || options_.is_video || !options_.second_pass) return sight;
  // In a mirror image, and in the crop of the first pass, the network makes other errors.
  const std::optional<Sight> again = infer(image, sight->crop, true);
  // What lies elsewhere is another thing, as where one hides another.
  if (!again || !(iou(again->box(), sight->box()) > same_iou_)) return sight;
  return mean(*sight, *again);
}

std::optional<Sight> CloseUp::infer_well(View image, const Crop& crop) {
  std::optional<Sight> sight = infer(image, crop, false);
  if (sight && is_off(crop, sight->crop, kAstray)) sight = infer(image, sight->crop, false);
  return sight;
}

std::vector<Found> CloseUp::track(View image, const palm_kits_part* part, const Box& area,
                                  const palm_kits_frame* frame) {
  const Similarity motion = motion_of(frame, options_);
  const double timestamp_ms = timestamp_of(frame), time_s = clock_.tick(timestamp_ms);
  ++frame_;
  tracker_.look_from(motion.after(tracker_.view()), image.width, image.height);
  std::vector<Track*> known;
  for (auto& [id, each] : tracks_) {
    if (!motion.is_still()) each->move(motion);
    if (each->seen_s == time_s_) known.push_back(each.get());
  }
  std::vector<std::pair<Sight, Sight>> seen;
  for (Track* each : known) {
    std::optional<Sight> now = follow(image, *each, known, time_s);
    if (now) seen.emplace_back(each->sight, std::move(*now));
  }
  std::vector<Sight> sights = each_once(seen, same_iou_);
  const bool lost = sights.size() < known.size() || sights.empty() || tracker_.is_waiting();
  const bool due = lost || since_search_ + 1 >= options_.detect_every;
  if (due && !is_full(sights.size())) {
    search(image, area, sights);
    since_search_ = 0;
  } else {
    ++since_search_;
  }
  const auto is_outside = [&](const Sight& each) { return !is_inside(each.box(), part); };
  sights.erase(std::remove_if(sights.begin(), sights.end(), is_outside), sights.end());
  Boxes boxes;
  std::vector<char> sure;
  for (const Sight& each : sights) {
    boxes.push_back(each.place ? *each.place : each.box());
    sure.push_back(each.presence >= options_.min_presence);
  }
  const std::vector<int64_t> ids = tracker_.update(boxes, sure, time_s);
  std::vector<Found> found;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0) continue;
    std::unique_ptr<Track>& track = tracks_[ids[i]];
    if (!track) track = new_track(sights[i], time_s);
    track->take(sights[i], time_s);
    found.push_back({std::move(sights[i]), ids[i], track.get()});
  }
  for (auto each = tracks_.begin(); each != tracks_.end();)
    each = time_s - each->second->seen_s > kLostS ? tracks_.erase(each) : std::next(each);
  time_s_ = time_s;
  return found;
}

bool CloseUp::is_new(const Corners<float>& box, const std::vector<Sight>& known) const {
  return std::none_of(known.begin(), known.end(),
                      [&](const Sight& each) { return iou(box, each.box()) > same_iou_; });
}

void flip(Picture& picture) {
  for (int y = 0; y < picture.height(); ++y) {
    uint8_t *left = picture.row(y), *right = left + 3 * (picture.width() - 1);
    for (; left < right; left += 3, right -= 3) std::swap_ranges(left, left + 3, right);
  }
}

bool are_within(const std::vector<float>& values, float most) {
  return std::all_of(values.begin(), values.end(),
                     [&](float value) { return value >= -most && value <= most; });
}

std::vector<Shown> shown(View image, const Boxes& corners, const std::vector<Found>& found,
                         int most) {
  // Which things count must not flicker in videos: the longest tracked come first.
  const bool by_id = most && !found.empty() && found[0].track;
  std::vector<double> ids;
  for (const Found& each : found) ids.push_back(by_id ? -static_cast<double>(each.id) : 0);
  std::vector<size_t> order = falling(ids);
  if (by_id) order.resize(std::min(order.size(), static_cast<size_t>(most)));
  std::vector<Shown> all;
  std::vector<double> scores;
  for (size_t row : order) {
    const Corners<float> box = clipped(corners[row], image.width, image.height);
    const Corners<float> sides{box[0], box[1], box[2] - box[0], box[3] - box[1]};
    if (!(sides[2] > 0 && sides[3] > 0)) continue;
    all.push_back({row, sides});
    scores.push_back(static_cast<float>(found[row].sight.presence));
  }
  std::vector<Shown> best;
  for (size_t place : falling(scores)) best.push_back(all[place]);
  return best;
}

}  // namespace palm_kits
