#pragma once
// Blur by a Gaussian, as palmkit.kits.tryon.regions.soften: less than a third of a pixel does
// nothing, and edges are repeated.
#include "image.h"

namespace palm_kits {

template <int C>
Dense<float, C> soften(Rows<const float, C> x, double sigma);

inline Mask soften(const Mask& x, double sigma) { return soften<1>(x.rows(), sigma); }

}  // namespace palm_kits
