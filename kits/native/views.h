#pragma once
// The parts of a picture that networks of masks see, as palmkit.kits.portrait.views.
#include <deque>
#include <optional>
#include <vector>

#include "image.h"
#include "steady.h"

namespace palm_kits {

// A picture, its half, the half of that ..., each made on first use.
class Halves {
 public:
  explicit Halves(View image) : image_(image) {}
  int width() const { return image_.width; }
  int height() const { return image_.height; }
  // A part as a square.
  Picture part(const Box& box, int side);
  // The same, quickly.
  Picture glance(const Box& box, int side);

 private:
  View at(size_t level);
  // A part, halved with the whole picture while it is large and edges are even.
  template <class IsLarge>
  View halved(Box box, IsLarge is_large);
  View image_;
  std::deque<Picture> smaller_;
};

// The part of a picture round the people in the part `seen` of it; nothing where nobody is. room:
// round them, in their width and height, which may reach out of the part.
std::optional<Box> box_round(MaskView coarse, const Box& seen, int width, int height, double room);
// Whole places of a mask of so many a side, at least one, of what lies at low..high in pixels.
struct Span {
  int low, high;
};
Span span(double low, double high, double scale, int side);
// Where people are, with a margin, in pixels of the picture; nothing where nobody is.
std::optional<Box> box_of_people(MaskView coarse, int width, int height);
// What the network of hair sees of a face: x, y, width, height. box: likewise.
Part square_round(const Part& box, int width, int height);
// Whether each of the views is a small part of a picture.
bool far_only(const std::vector<Part>& views, const Part& picture);
// Where to look for the hair of somebody whose face is not known.
struct Head {
  Part part;
  bool is_sure;
};
// Those of the people whose faces are not among these: x, y, width, height in the picture's pixels.
std::vector<Head> heads_without_faces(MaskView people, const std::vector<Part>& faces, int width,
                                      int height);

}  // namespace palm_kits
