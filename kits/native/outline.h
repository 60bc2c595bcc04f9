#pragma once
// How much of a pixel is hair along the outline of hair: palmkit.kits.tryon.outline.
#include "image.h"

namespace palm_kits {

// How much of each pixel is hair, by its colour where it is near the outline. picture: as large as
// hair. per_cm: how many pixels a centimetre at the head is.
Mask along_outline(View picture, const Mask& hair, double per_cm);

}  // namespace palm_kits
