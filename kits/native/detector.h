#pragma once
// A detection network on pictures, whole or in parts, as palmkit.kits.detector.
#include <optional>

#include "detection.h"
#include "network.h"
#include "sheets.h"
#include "steady.h"
#include "warp.h"

namespace palm_kits {

// A picture fitted in another size, at its top left corner.
struct Fitted {
  Picture canvas;
  palm_kits_placement placement;
};
// part: pixels of the picture.
Fitted letterbox(View image, const Box& part, int width, int height, double max_scale);
void to_picture(const palm_kits_placement& placement, float* points, size_t count);

class Detector {
 public:
  Detector(const palm_kits_network* network, size_t keypoints, double max_enlarged);

  // One row a thing, best first. size: the longest side of the input. tile: 0 or the side of
  // squares.
  Candidates search(View image, const Box& area, int size, float min_score, int tile) const;
  // All candidates in an area. size: the longest side of the input.
  Candidates infer_whole(View image, const Box& area, int size, float min_score) const;
  // All candidates in parts of an area, which the network sees at once, each in a square of `side`
  // pixels. Those that a part's side cuts are left out.
  Candidates infer_parts(View image, const Box& area, const std::vector<Part>& parts, int side,
                         float min_score) const;
  // The same of the parts of a sheet, enlarged by max_scale at most.
  Candidates infer_sheet(View image, const Box& area, const Sheet& sheet, float min_score,
                         double max_scale) const;
  // Whether one of its sizes holds another.
  bool holds(palm_kits_size wanted) const { return holding(wanted).has_value(); }
  // All candidates in a part, which may exceed the picture.
  Candidates infer(View image, const Part& part, palm_kits_size input, float min_score,
                   double max_scale) const;
  // Of candidates those that no side of the part cuts which is none of the area.
  static Candidates uncut(const Candidates& found, const Part& part, const Part& area);

 private:
  // What it finds in a picture of one of its sizes, in pixels of that.
  Candidates decoded(View canvas, float min_score) const;
  // The smallest of its sizes that holds another; nothing if none does.
  std::optional<palm_kits_size> holding(palm_kits_size wanted) const;
  // The size to run at for one that is wanted: itself, or of those that the network has the one
  // that shows most.
  palm_kits_size runnable(palm_kits_size wanted, int width, int height, double scale) const;

  Network network_;
  size_t keypoints_;
  double max_enlarged_;
};

}  // namespace palm_kits
