#pragma once
// Kits of close-ups, as palmkit.kits.closeup: a detector finds things, a network infers each in a
// crop of its own, and in videos each is followed by the crop in which it was seen last.
#include <map>
#include <memory>
#include <optional>

#include "crop.h"
#include "detector.h"
#include "filters.h"
#include "options.h"
#include "tracker.h"

namespace palm_kits {

// One thing as seen in a crop.
struct Sight {
  double presence = 0;
  Crop crop{};                          // where to look for it in the next frame
  std::optional<Corners<float>> place;  // where it must be, if what was seen is not reliable
  std::vector<float> points;            // x, y, z each, in pixels
  std::vector<float> also;  // of a face what is seen of each point, of a hand its gestures
  double right = 0.5;       // of a hand
  size_t outline = 0;       // of so many points, the first ones, is its box

  Corners<float> box() const { return box_round(points.data(), outline, 3); }
  // Goes along with the camera; not at all if it hardly moved.
  void move(const Similarity& motion);
};

// One thing of a video, as last seen.
class Track {
 public:
  Track(Sight sight_, double time_s) : sight(std::move(sight_)), seen_s(time_s) {}
  virtual ~Track() = default;
  virtual void take(const Sight& now, double time_s) { sight = now, seen_s = time_s; }
  virtual void move(const Similarity& motion) { sight.move(motion); }

  Sight sight;
  double seen_s;
};

// Where a detector found something: a crop, and how certain a sight of it can be in a picture.
struct Candidate {
  Corners<float> box;
  Crop crop;
  double limit;
};

// A result: a sight, in videos its id and its track.
struct Found {
  Sight sight;
  int64_t id = -1;
  Track* track = nullptr;
};

class CloseUp {
 public:
  CloseUp(const Options& options, const palm_kits_network* network, const char* what,
          float same_iou);
  virtual ~CloseUp() = default;
  CloseUp(const CloseUp&) = delete;
  CloseUp& operator=(const CloseUp&) = delete;

  std::vector<Found> run(View image, const palm_kits_part* part, const palm_kits_frame* frame);
  const Options& options() const { return options_; }

 protected:
  virtual std::vector<Candidate> candidates(View image, const Box& area) = 0;
  virtual std::optional<Sight> infer(View image, const Crop& crop, bool mirrored) = 0;
  virtual std::unique_ptr<Track> new_track(const Sight& sight, double time_s) = 0;
  virtual std::optional<Sight> follow(View image, Track& track, const std::vector<Track*>& known,
                                      double time_s) = 0;
  virtual bool is_wanted(View, const Sight&) const { return true; }
  // Adds what is in a picture.
  virtual void search(View image, const Box& area, std::vector<Sight>& found);
  // Adds what is seen at candidates.
  void see(View image, const std::vector<Candidate>& all, std::vector<Sight>& found);
  bool is_full(size_t count) const {
    return options_.max_count && count >= static_cast<size_t>(options_.max_count);
  }
  std::optional<Sight> infer_well(View image, const Crop& crop);
  bool may_be(double presence) const;

  const Options options_;
  const Network network_;
  const int side_;
  int64_t frame_ = 0;  // of a video, from 1

 private:
  std::optional<Sight> infer_new(View image, const Crop& crop);
  std::vector<Found> track(View image, const palm_kits_part* part, const Box& area,
                           const palm_kits_frame* frame);
  bool is_new(const Corners<float>& box, const std::vector<Sight>& known) const;

  float same_iou_;
  Clock clock_;
  Tracker tracker_;
  std::map<int64_t, std::unique_ptr<Track>> tracks_;
  int since_search_ = 0;
  double time_s_ = 0;
};

// Mirrors a picture, left to right.
void flip(Picture& picture);
// Whether all values are within -most..most; no NaN is.
bool are_within(const std::vector<float>& values, float most);

// A user's box and score of a result, and its place in the list.
struct Shown {
  size_t row;
  Corners<float> box;  // x, y, width, height, inside the picture
};
// Those to show, best first: with `most` those of the longest tracked. corners: in any place.
std::vector<Shown> shown(View image, const Boxes& corners, const std::vector<Found>& found,
                         int most);

}  // namespace palm_kits
