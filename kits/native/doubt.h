#pragma once
// What a mask of hair says against the picture's colours: palmkit.kits.tryon.doubt.
#include "lab.h"
#include "regions.h"

namespace palm_kits {

// The mask of one head's hair in a part of the picture without what has the colour of the face's
// skin. points: 478 of its mesh, in the picture's pixels. visibility: how far each is seen.
void drop_skin(View picture, const Box& part, Mask& mask, const Line& points,
               const float* visibility);
// Without a hat, or a shaved head. otherwise: the same hair in other looks. points: in their
// pixels.
void drop_hats(Mask& mask, const Mask& otherwise, const Line& points);
// Without what it is not sure of, the more so what looks like no hair. picture: as large as it.
// side: the longer side of its face, in pixels.
void drop_doubtful(View picture, Mask& mask, double side);

}  // namespace palm_kits
