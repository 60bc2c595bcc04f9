#pragma once
// A network's small mask as one of every pixel of the picture: palmkit.kits.portrait.refine.
#include "image.h"

namespace palm_kits {

// By brightness alone. small: the picture as large as the mask.
void refine(View image, MaskView coarse, View small, Rows<float, 1> to);
// How much of each pixel is the person's, by colour. mask: as large as the picture.
void opacity(View image, MaskView mask, Rows<float, 1> to);
// The mask without small separate parts.
void fade_specks(Mask& coarse);
// Leaves of a mask its connected parts of at least this share of it, and tells whether it has any.
bool keep_large_parts(Mask& coarse, double least);

}  // namespace palm_kits
