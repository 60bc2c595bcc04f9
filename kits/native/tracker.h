#pragma once
// Which box belongs to which thing of a video, as palmkit.kits.tracks.
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "boxes.h"
#include "crop.h"
#include "filters.h"

namespace palm_kits {

using Place = Corners<double>;

constexpr double kLostS = 1.0;  // so long a track waits for its thing

class Tracked {
 public:
  Tracked(int64_t id, const Place& box, double time_s);

  double lost_s(double time_s) const { return time_s - seen_s - behind_s - outside_s; }
  Place predicted(double time_s) const;
  bool is_at_rest() const;
  // By how much it is to be preferred to others, the last frame being at last_s.
  double preference(double last_s) const;
  // Where it may be: as predicted, as last seen and moved on, and at rest.
  std::array<Place, 3> alternatives(double time_s) const;
  // Moves on as before, as something is seen of it, but not where it is.
  void go_on(double time_s);
  void move(const Place& to, double time_s);

  int64_t id;
  Place box;
  Place speed{};
  OneEuro smoothing;
  double seen_s, placed_s, first_s, behind_s = 0, outside_s = 0;

 private:
  struct Seen {
    double time_s;
    Place box;
    double area;
  };
  Place moved(const Place& from, const Place& speed, double time_s) const;
  // The last box and speed; of a partly hidden thing, as they must have been.
  std::pair<Place, Place> whole() const;

  std::deque<Seen> places_;
};

class Tracker {
 public:
  explicit Tracker(double max_lost_s = kLostS) : max_lost_s_(max_lost_s) {}

  // The camera's motion since the first frame, and the size of the next one.
  void look_from(const Similarity& view, int width, int height);
  const Similarity& view() const { return view_; }
  // Where the tracks that the last frame showed will be.
  Boxes predict(double time_s);
  // Whether something was not seen in the last frame, but lately.
  bool is_waiting() const;
  // The id of each box; -1 where it fits none and, as it is not sure, may not start one.
  std::vector<int64_t> update(const Boxes& boxes, const std::vector<char>& sure, double time_s);
  // Steadies `count` values each of the things with these ids in place, once a frame.
  // Returns false, and does nothing, if an id has no track or was steadied with another count.
  bool smooth(const std::vector<int64_t>& ids, float* values, size_t count, const float* sizes);
  double time_s() const { return time_s_; }

 private:
  struct Pair {
    size_t box, track;
    float fit;
  };
  void forget(double time_s);
  void wait(const std::vector<Place>& seen, double time_s);
  bool is_outside(const Tracked& track) const;
  std::vector<Pair> pairs(const std::vector<Place>& boxes, const std::vector<char>& sure,
                          double time_s) const;

  double max_lost_s_, time_s_ = 0;
  int64_t next_id_ = 0;
  std::vector<Tracked> tracks_;
  Similarity view_;
  int width_ = 0, height_ = 0;  // of the frame; 0: not told
};

}  // namespace palm_kits
