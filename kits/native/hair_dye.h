#pragma once
// Dye for hair: palmkit.kits.tryon.hair.
#include "canvas.h"
#include "lipstick.h"

namespace palm_kits {

// Dyes the hair of a head in a part of a picture. hair: how much of each pixel is this hair.
// per_cm: how many pixels a centimetre at the head is.
void dye_hair(const Worn& worn, Rows<uint8_t, 3> picture, MaskView hair, double per_cm,
              Memory& memory, std::optional<double> time_s);

// How far hair covers each pixel, by its mask alone.
void to_coverage(Mask& mask);

}  // namespace palm_kits
