#pragma once
// Colour on the lips: palmkit.kits.tryon.makeup.Lipstick.
#include "canvas.h"

namespace palm_kits {

enum class Finish { matte, satin, gloss, shimmer };

struct Worn {
  Lab colour;
  float opacity;
  Finish finish;
};

void lay_lipstick(const Worn& worn, Canvas& canvas);

}  // namespace palm_kits
