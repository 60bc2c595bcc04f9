#pragma once
// Parts of a picture that are looked at alone, as palmkit.kits.portrait.parts.
#include <optional>
#include <vector>

#include "image.h"

namespace palm_kits {

// How many pixels a box has.
inline double area_of(const Box& box) { return static_cast<double>(box.width()) * box.height(); }
// Where people are in what was seen, in the picture's pixels; nothing where nobody is.
std::optional<Box> people_in(MaskView coarse, const Box& seen);
// The same, if that is little of what was seen.
std::optional<Box> closer(MaskView coarse, const Box& seen);
// Whether two boxes share a pixel; whether all of one lies in the other.
bool overlap(const Box& one, const Box& other);
bool is_within(const Box& one, const Box& other);
// Parts that overlap and cover a picture, row by row: `count` a side, two or more, each with this
// share of the width and height. step: of how many pixels their sizes are multiples, and where they
// start, unless they end where the picture does.
std::vector<Box> parts_of(int width, int height, int count, double share, int step);
// The mask of a part of a picture without who reaches out of the part.
void drop_cut(Mask& people, const Box& part, int width, int height);
// Parts of what was seen, each with people apart from others, the largest first; none overlap.
std::vector<Box> apart(MaskView coarse, const Box& seen);
// A mask of `seen` becomes, in a part of it, its mean with what a look at that part says there.
void mix_in(Mask& coarse, const Mask& said, const Box& part, const Box& seen);
// Boxes round those that overlap, none of which overlap; of too many, one round all.
std::vector<Box> groups(const std::vector<Box>& boxes);

}  // namespace palm_kits
