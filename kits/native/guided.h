#pragma once
// A guided filter, as palmkit.engine.guided: coefficients on a small grid, then for every pixel.
#include "image.h"

namespace palm_kits {

// What each place of a mask becomes as a linear function of its colours: slopes, and what the prior
// loses. Bayesian matting (Chuang, Curless, Salesin and Szeliski, CVPR 2001) with one colour a
// side.
struct Fit {
  std::vector<Mask> slopes;
  Mask drop;
};
// colours: one to three planes of 0..1, as large as the prior. reach: a Gaussian's sigma. weight:
// of a colour beside the prior.
Fit guided_fit(MaskView prior, const std::vector<Mask>& colours, float reach, float weight);

// y = offset + sum of slopes times colours, from 0 to 1: one slope of the brightness, or three of
// red, green and blue. Offset and slopes are enlarged between their pixels.
void guided_upsample(MaskView offset, const std::vector<Mask>& slopes, View image,
                     Rows<float, 1> y);

}  // namespace palm_kits
