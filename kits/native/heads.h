#pragma once
// Which faces wear a look, and which hair is theirs: palmkit.kits.tryon.heads.
#include <cstdint>
#include <optional>
#include <vector>

#include "image.h"
#include "palm_kits.h"

namespace palm_kits {

// The longer side of a face's box, in centimetres.
constexpr double kFaceCm = 18;

using Meshes = std::vector<palm_kits_mesh>;
using Indices = std::vector<size_t>;

// Chooses the faces that wear a look; in a video it stays with the one that it has chosen.
class Wearers {
 public:
  // which: a number from the left, or PALM_KITS_ALL and its like. most: of the best score, among
  // which it is made; 0: all. doubts: a small face of a picture is left out unless it is sure.
  Indices among(const Meshes& faces, View image, int which, int most, bool is_video, bool doubts);

 private:
  int64_t chosen_ = -1;
};

// A head's hair: the row of its face, a part of the picture, the mask there, and how many pixels a
// centimetre at the head is.
struct HeadHair {
  size_t row;
  Box part;
  Mask mask;
  double per_cm;
};

// The hair of each wearer that has some. mask: of all hair.
std::vector<HeadHair> hair_of_heads(MaskView mask, const Meshes& faces, const Indices& wearers);

}  // namespace palm_kits
