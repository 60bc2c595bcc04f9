#pragma once
// What kits of masks have: a network, and how its mask comes to the picture's size.
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "filters.h"
#include "network.h"
#include "options.h"
#include "steady.h"

namespace palm_kits {

void fill(Rows<float, 1> mask, float value);
// What a network says of each place, 0 to 1: a user's own model may leave that.
Mask probabilities(const std::vector<float>& values, int side);
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
  // Whose hair a look at a part of the picture shows, and which of these.
  enum class Whose { face, head, area };
  using Who = std::pair<Whose, int64_t>;
  using Looks = std::vector<std::pair<Who, Part>>;
  // How a look is taken. fine: the mask follows the picture's edges. twice: it is hair in the
  // mirror image of the view, too. least: the share of the view that a connected part of the hair
  // has at least.
  struct Way {
    bool fine, twice;
    double least = 0;
  };
  // Writes the hair round faces, or of all the area without any, and 0 outside of the area.
  void around(View image, const std::vector<Face>& faces, const Box& area,
              std::optional<double> time_s, Way way, Rows<float, 1> mask);
  // The hair round a face in other looks, turned or without colours, in a part of the picture: of
  // what the network takes for hair by mistake it is less sure there.
  Mask otherwise(View image, const Part& face, const Box& area, const Box& part) const;

  using Segmenter::tick;

 protected:
  static Looks round_faces(View image, const std::vector<Face>& faces);
  // Writes the hair that looks show; without any, that in all of the area.
  void look(View image, Looks looks, const Box& area, std::optional<double> time_s, Way way,
            Rows<float, 1> mask);
  // Raises the mask to what the network says of a view.
  void add(Rows<float, 1> mask, View image, const Box& area, const Part& view, Steady& steady,
           std::optional<double> time_s, Way way) const;

 private:
  // What the network sees of a view: the part of it in the picture, where that lies in the input.
  struct Seen {
    Box box, inside;
    Picture small, canvas;
  };
  std::optional<Seen> seen(View image, const Box& area, const Part& view) const;

  std::map<Who, Steady> steady_;
};

}  // namespace palm_kits
