#pragma once
// A mask from one frame of a video to the next, as palmkit.kits.portrait.steady.
#include <array>
#include <optional>

#include "image.h"

namespace palm_kits {

// x, y, width, height in pixels, which may lie between them or outside of the picture.
using Part = std::array<double, 4>;

inline Part part_of_box(const Box& box) {
  return {static_cast<double>(box.left), static_cast<double>(box.top),
          static_cast<double>(box.width()), static_cast<double>(box.height())};
}

// Holds a mask still where the picture is, and lets it follow at once where it moves.
class Steady {
 public:
  // Whether a frame of this time may come next.
  bool takes(double time_s) const { return !last_ || time_s > last_->time_s; }
  // mask: the network's result, which becomes that to use; small: its input; view: what these show.
  void update(Mask& mask, View small, const Part& view, double time_s);

 private:
  struct Frame {
    Mask mask;
    Picture colours;
    Part view;
    double time_s;
  };
  std::optional<Frame> last_;
};

}  // namespace palm_kits
