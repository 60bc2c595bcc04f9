#pragma once
// Hands in front of faces, as a mask: palmkit.kits.tryon.hands.
#include <optional>

#include "heads.h"
#include "image.h"

namespace palm_kits {

// The part of the picture round faces where hands are looked for; without width there is none.
palm_kits_part part_for_hands(const Meshes& faces, const Indices& rows, const Box& area);
// Where they are; nothing without any.
std::optional<Mask> hands_in_front(View image, const std::vector<palm_kits_hand>& hands,
                                   const Meshes& faces, const Indices& rows);

}  // namespace palm_kits
