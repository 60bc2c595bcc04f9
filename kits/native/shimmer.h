#pragma once
// Sparkles in make-up: palmkit.kits.tryon.shimmer.
#include "canvas.h"

namespace palm_kits {

// Grains fixed to the face at its lips: lightness, of a part of the canvas at `corner`.
Mask sparkle(const Canvas& canvas, int width, int height, Point corner);

}  // namespace palm_kits
