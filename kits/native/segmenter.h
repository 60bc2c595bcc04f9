#pragma once
// What kits of masks have: a network, and how its mask comes to the picture's size.
#include <map>
#include <optional>

#include "filters.h"
#include "network.h"
#include "options.h"
#include "steady.h"

namespace palm_kits {

void fill(Rows<float, 1> mask, float value);
inline Rows<float, 1> part_of(Rows<float, 1> mask, const Box& box) {
  return mask.part(box.left, box.top, box.right, box.bottom);
}

class Segmenter {
 public:
  Segmenter(const Options& options, const palm_kits_network* network, const char* what)
      : options_(options), network_(network, what), side_(network_.side()) {}

 protected:
  Mask infer(View view) const;
  void enlarge(View image, MaskView coarse, View small, Rows<float, 1> to) const;
  // The time of a frame; nothing of a picture.
  std::optional<double> tick(const palm_kits_frame* frame);

  const Options options_;
  const Network network_;
  const int side_;

 private:
  Clock clock_;
};

// The hair round faces: palmkit.kits.portrait.hair.
class Hair : public Segmenter {
 public:
  Hair(const Options& options, const palm_kits_network* hair) : Segmenter(options, hair, "hair") {}

  // A face's box: x, y, width and height; and its id.
  struct Face {
    Part box;
    int64_t id;
  };
  // How a look is taken. fine: the mask follows the picture's edges. twice: it is hair in the
  // mirror image of the view, too.
  struct Way {
    bool fine, twice;
  };
  // Writes the hair round faces, or of all the area without any, and 0 outside of the area.
  void around(View image, const std::vector<Face>& faces, const Box& area,
              std::optional<double> time_s, Way way, Rows<float, 1> mask);
  // The hair round a face in other looks, turned or without colours, in a part of the picture: of
  // what the network takes for hair by mistake it is less sure there.
  Mask otherwise(View image, const Part& face, const Box& area, const Box& part) const;

  using Segmenter::tick;

 private:
  // What the network sees of a view: the part of it in the picture, where that lies in the input.
  struct Seen {
    Box box, inside;
    Picture small, canvas;
  };
  std::optional<Seen> seen(View image, const Box& area, const Part& view) const;
  void add(Rows<float, 1> mask, View image, const Box& area, const Part& view, Steady& steady,
           std::optional<double> time_s, Way way) const;
  int start(double low, double length) const;
  int end(double low, double high, double length) const;

  std::map<int64_t, Steady> steady_;
};

}  // namespace palm_kits
