#include "options.h"

#include <algorithm>
#include <limits>

namespace palm_kits {
namespace {

int whole(int32_t value, int32_t least, int32_t most, const char* what) {
  if (value < least || value > most)
    refuse("%s: expected %d to %d, got %d", what, least, most, value);
  return value;
}

bool either(int32_t value, const char* what) { return whole(value, 0, 1, what) != 0; }

}  // namespace

Options::Options(const palm_kits_options* given_) {
  const palm_kits_options& from = *given(given_, "options");
  if (from.size != sizeof from)
    refuse("options: expected a size of %zu, got %zu: begin with PALM_KITS_FACES or its like",
           sizeof from, from.size);
  constexpr int32_t kMost = std::numeric_limits<int32_t>::max();
  is_video = either(from.is_video, "is_video");
  is_smooth = either(from.is_smooth, "is_smooth");
  second_pass = either(from.second_pass, "second_pass");
  is_refined = either(from.is_refined, "is_refined");
  max_count = whole(from.max_count, 0, kMost, "max_count");
  detector_size = from.detector_size ? whole(from.detector_size, 32, 4096, "detector_size") : 0;
  tile = from.tile ? whole(from.tile, 32, kMost, "tile") : 0;
  detect_every = whole(from.detect_every, 1, kMost, "detect_every");
  min_score = between(from.min_score, 0, 1, "min_score");
  min_presence = between(from.min_presence, 0, 1, "min_presence");
  min_face = between(from.min_face, 0, 1e9, "min_face");
  hold_s = between(from.hold_ms, 0, 1e6, "hold_ms") / 1e3;
}

double Options::least_side(View image) const {
  return min_face < 1 ? min_face * std::min(image.width, image.height) : min_face;
}

Similarity motion_of(const palm_kits_frame* frame, const Options& options) {
  if (frame && !options.is_video) refuse("frame: expected NULL, the kit's is_video is 0");
  return frame ? motion_of(frame->motion) : Similarity{};
}

double timestamp_of(const palm_kits_frame* frame) {
  return frame ? finite(frame->timestamp_ms, "timestamp_ms") : std::nan("");
}

bool is_inside(const Corners<float>& box, const palm_kits_part* part) {
  if (!part) return true;
  const double x = (box[0] + box[2]) / 2, y = (box[1] + box[3]) / 2;
  return part->x <= x && x <= part->x + part->width && part->y <= y && y <= part->y + part->height;
}

}  // namespace palm_kits
