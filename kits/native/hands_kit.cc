// The kit of hands, as palmkit.kits.hands.kit and following.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "calls.h"
#include "closeup.h"

namespace palm_kits {
namespace {

constexpr const char* kGestures[] = {"fist",       "open_palm",    "one",  "two",
                                     "three",      "four",         "ok",   "thumb_up",
                                     "thumb_down", "finger_heart", "other"};
constexpr size_t kGestureCount = sizeof kGestures / sizeof *kGestures, kRest = kGestureCount - 1;
constexpr float kFarthest = 4.f;  // no landmark is further from its crop's corner, in sides
constexpr double kMaxEnlarged = 3.0, kSideS = 0.6;
constexpr int kSize = 224, kCloser = 448, kFar = 896;  // longest sides of what the detector sees
constexpr double kFarPresence = 0.97;  // of a hand that is seen in kFar pixels alone
constexpr float kNear = 1.f / 8;  // a hand this long, of the longer side, ends a search

class HandTrack : public Track {
 public:
  HandTrack(const Sight& sight_, double time_s, double hold_s)
      : Track(sight_, time_s), gestures(kRest, hold_s) {}

  void take(const Sight& now, double time_s) override {
    if (has_first_ && time_s > last_s_) {
      double moved[2] = {};
      for (size_t i = 0; i < kLandmarks; ++i)
        for (size_t k = 0; k < 2; ++k) moved[k] += now.points[3 * i + k] - sight.points[3 * i + k];
      for (size_t k = 0; k < 2; ++k)
        speed_[k] += 0.5 * (moved[k] / kLandmarks / (time_s - last_s_) - speed_[k]);
    }
    Track::take(now, time_s);
    if (!has_first_) {
      has_first_ = true, first_s_ = time_s, right = now.right;
    } else {
      // The plain mean at first, then an exponential one.
      const double step_s = time_s - last_s_;
      const double weight = step_s / std::min(std::max(time_s - first_s_, 2 * step_s), kSideS);
      right += std::min(weight, 1.0) * (now.right - right);
    }
    last_s_ = time_s;
  }

  // The crop to look at; unchanged for a hand that hardly moves.
  Crop expected_crop(double time_s) const {
    Crop crop = sight.crop;
    double way[2];
    for (size_t k = 0; k < 2; ++k)
      way[k] = std::min(std::max(speed_[k] * (time_s - seen_s) / crop.side, -0.5), 0.5);
    if (std::hypot(way[0], way[1]) < kStill.shift) return crop;
    crop.x += way[0] * crop.side, crop.y += way[1] * crop.side;
    return crop;
  }

  void steady(float* landmarks) {
    const double size = std::max(palm_size(sight.points.data()), 1.0);
    filter_.filter(sight.points.data(), sight.points.size(), seen_s, size, landmarks);
  }

  GestureFilter gestures;
  double right = 0.5;

 private:
  OneEuro filter_;
  double speed_[2] = {}, first_s_ = 0, last_s_ = 0;
  bool has_first_ = false;
};

class HandKit : public CloseUp {
 public:
  HandKit(const Options& options, const palm_kits_network* detector,
          const palm_kits_network* landmarks)
      : CloseUp(options, landmarks, "landmarks", 0.5f), detector_(detector, 2, kMaxEnlarged) {}

 protected:
  std::vector<Candidate> candidates(View image, const Box& area) override {
    const int size = options_.detector_size ? options_.detector_size : kSize;
    return found_at(image, area, size, options_.tile);
  }

  void search(View image, const Box& area, std::vector<Sight>& found) override {
    CloseUp::search(image, area, found);
    if (is_searched(area, found)) return;
    next_closer_ = frame_ + options_.detect_every;
    see(image, found_at(image, area, kCloser, 0), found);  // the tiles were seen before
    if (options_.is_video || !found.empty() || longer_side(area) <= kCloser) return;
    see(image, found_at(image, area, kFar, 0), found);
    const auto is_unsure = [](const Sight& hand) { return hand.presence < kFarPresence; };
    found.erase(std::remove_if(found.begin(), found.end(), is_unsure), found.end());
  }

  std::vector<Candidate> found_at(View image, const Box& area, int size, int tile) const {
    const Candidates found =
        detector_.search(image, area, size, static_cast<float>(options_.min_score), tile);
    std::vector<Candidate> all;
    for (size_t row = 0; row < found.size(); ++row) {
      const Corners<float>& box = found.boxes[row];
      const std::array<double, 4> sides{box[0], box[1], box[2] - box[0], box[3] - box[1]};
      all.push_back({box, hand_crop(found.points_of(row), sides), 1.0});
    }
    return all;
  }

  std::optional<Sight> infer(View image, const Crop& crop, bool mirrored) override {
    Picture drawn = sample(image, crop, side_);
    // The picture's upward direction in the crop.
    double x = -std::sin(crop.angle);
    if (mirrored) flip(drawn), x = -x;
    const float up[2] = {static_cast<float>(x), static_cast<float>(-std::cos(crop.angle))};
    std::vector<Output> outputs{{"landmarks", {1, kLandmarks, 3}},
                                {"handedness", {1, 1}},
                                {"presence", {1, 1}},
                                {"gesture", {1, kGestureCount}}};
    network_.run(drawn, outputs, up);
    const double right = outputs[1].data[0], presence = outputs[2].data[0];
    const bool near = are_within(outputs[0].data, kFarthest) && 0 <= right && right <= 1;
    if (!may_be(presence) || !near || !are_within(outputs[3].data, 1)) return std::nullopt;
    Sight sight;
    sight.points = outputs[0].data, sight.also = outputs[3].data, sight.outline = kLandmarks;
    sight.right = mirrored ? 1 - right : right;
    if (mirrored)
      for (size_t i = 0; i < kLandmarks; ++i) sight.points[3 * i] = 1 - sight.points[3 * i];
    crop.to_picture(sight.points.data(), kLandmarks, 3);
    sight.presence = std::min(presence, 1.0);
    sight.crop = settled(crop, landmarks_crop(sight.points.data()));
    return sight;
  }

  std::unique_ptr<Track> new_track(const Sight& sight, double time_s) override {
    return std::make_unique<HandTrack>(sight, time_s, options_.hold_s);
  }

  std::optional<Sight> follow(View image, Track& track, const std::vector<Track*>&,
                              double time_s) override {
    return infer_well(image, static_cast<HandTrack&>(track).expected_crop(time_s));
  }

 private:
  static int longer_side(const Box& area) { return std::max(area.width(), area.height()); }

  // Whether to look no closer for more hands than those that are known.
  bool is_searched(const Box& area, const std::vector<Sight>& found) const {
    const int longer = longer_side(area);
    if (options_.is_video && frame_ < next_closer_) return true;
    if (options_.detector_size || is_full(found.size()) || longer <= kSize) return true;
    return std::any_of(found.begin(), found.end(), [&](const Sight& hand) {
      const Corners<float> box = hand.box();
      return std::max(box[2] - box[0], box[3] - box[1]) >= kNear * static_cast<float>(longer);
    });
  }

  const Detector detector_;
  int64_t next_closer_ = 0;  // the frame from which on the detector may look closer again
};

}  // namespace
}  // namespace palm_kits

using namespace palm_kits;

struct palm_kits_hands {
  std::unique_ptr<HandKit> kit;
};

const char* palm_kits_gesture_name(int32_t gesture) {
  const bool is_known = gesture >= 0 && gesture < static_cast<int32_t>(kGestureCount);
  return is_known ? kGestures[gesture] : nullptr;
}

palm_kits_status palm_kits_hands_create(const palm_kits_network* detector,
                                        const palm_kits_network* landmarks,
                                        const palm_kits_options* options, palm_kits_hands** kit) {
  return making(kit,
                [&] { return std::make_unique<HandKit>(Options(options), detector, landmarks); });
}

void palm_kits_hands_free(palm_kits_hands* kit) { delete kit; }

palm_kits_status palm_kits_hands_run(palm_kits_hands* kit, const palm_kits_image* image,
                                     const palm_kits_part* part, const palm_kits_frame* frame,
                                     palm_kits_hand* hands, palm_kits_list* list) {
  return guarded([&] {
    HandKit& own = *given(kit, "kit")->kit;
    given(list, "list")->count = 0, given(hands, list->room, "hands");
    const Pixels pixels(image);
    const std::vector<Found> found = own.run(pixels.view(), part, frame);
    std::vector<palm_kits_hand> made(found.size());
    Boxes corners;
    for (size_t i = 0; i < found.size(); ++i) {
      const Sight& sight = found[i].sight;
      palm_kits_hand& to = made[i];
      const auto best = std::max_element(sight.also.begin(), sight.also.end());
      to.gesture = static_cast<int32_t>(best - sight.also.begin()), to.gesture_score = *best;
      to.right = static_cast<float>(sight.right), to.id = found[i].id;
      to.score = static_cast<float>(sight.presence);
      std::memcpy(to.landmarks, sight.points.data(), sizeof to.landmarks);
      if (auto* const track = static_cast<HandTrack*>(found[i].track)) {
        to.right = static_cast<float>(track->right);
        if (own.options().is_smooth) {
          to.gesture = static_cast<int32_t>(
              track->gestures.update(sight.also, track->seen_s, &to.gesture_score));
          track->steady(&to.landmarks[0][0]);
        }
      }
      corners.push_back(box_round(&to.landmarks[0][0], kLandmarks, 3));
    }
    const std::vector<Shown> all = shown(pixels.view(), corners, found, own.options().max_count);
    put_count(*list, all.size(), "hands");
    for (size_t i = 0; i < all.size(); ++i) {
      hands[i] = made[all[i].row];
      std::copy(all[i].box.begin(), all[i].box.end(), hands[i].box);
    }
  });
}
