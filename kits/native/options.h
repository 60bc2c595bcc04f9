#pragma once
// Options of kits, checked.
#include "calls.h"
#include "tracker.h"

namespace palm_kits {

struct Options {
  explicit Options(const palm_kits_options* given);

  bool is_video, is_smooth, second_pass, is_refined;
  int max_count, detector_size, tile, detect_every;
  double min_score, min_presence, min_face, hold_s;

  // The shorter side of the smallest face that is wanted.
  double least_side(View image) const;
};

// The motion before this frame. Refuses a frame in a kit of pictures, and a time that is infinite.
Similarity motion_of(const palm_kits_frame* frame, const Options& options);
double timestamp_of(const palm_kits_frame* frame);

// Whether the middle of a box lies in the part; in NULL all do.
bool is_inside(const Corners<float>& box, const palm_kits_part* part);

}  // namespace palm_kits
