#pragma once
// Things in front of a face, found by their colour: palmkit.kits.tryon.things.
#include <array>
#include <functional>

#include "lab.h"
#include "regions.h"

namespace palm_kits {

// A face's skin: its mean colour, how a and b follow lightness, and their spread.
struct Skin {
  Lab mean;
  std::array<float, 2> slope, spread;
};

// points: 478 of the mesh, in pixels of `lab`. trust: how far each is seen.
Skin skin_of(LabView lab, const Line& points, const float* trust);

// Where something that is no skin is in front of a face, of whose part `picture` is. settle:
// steadies the numbers of the skin.
using Settle = std::function<void(std::vector<float>&)>;
Mask find_things(View picture, const Line& points, const float* trust, double per_cm,
                 const Settle& settle);

}  // namespace palm_kits
