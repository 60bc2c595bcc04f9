#pragma once
// A glance at a picture that says where people are: palmkit.kits.portrait.finder.
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "network.h"
#include "tracker.h"
#include "views.h"

namespace palm_kits {

class Finder {
 public:
  explicit Finder(const palm_kits_network* finder);

  // What the network sees of a picture, or of a part of it.
  Picture view(Halves& picture) const {
    return view(picture, {0, 0, picture.width(), picture.height()});
  }
  Picture view(Halves& picture, const Box& part) const {
    return picture.glance(part, network_.side());
  }
  // How likely there is somebody, with half the view's sides.
  Mask people(View view) const;

 private:
  Network network_;
};

// The heads of people whose faces are not seen, from one frame of a video to the next.
class Heads {
 public:
  explicit Heads(const palm_kits_network* finder) : finder_(finder) {}

  // Each one's number, and what to look at for its hair. faces: x, y, width, height in the picture.
  std::vector<std::pair<int64_t, Part>> update(Halves& picture, const std::vector<Part>& faces,
                                               std::optional<double> time_s);

 private:
  struct Known {
    Part part;
    double time_s;
  };
  Finder finder_;
  Steady people_;
  Tracker tracker_;
  std::map<int64_t, Known> known_;
  int skipped_ = 0;  // frames to come without a glance
};

}  // namespace palm_kits
