#pragma once
// CIELAB (D65) of sRGB, as OpenCV makes it: L 0 to 100, a and b -128 to 127.
#include <array>

#include "image.h"

namespace palm_kits {

using LabImage = Dense<float, 3>;
using LabView = Rows<const float, 3>;
using Lab = std::array<float, 3>;

void to_lab(const uint8_t* rgb, size_t count, float* lab);
LabImage to_lab(View x);
// Colours that sRGB does not have are cut off.
void to_rgb(const float* lab, size_t count, uint8_t* rgb);

// The weighted mean; black without any weight.
Lab mean_of(LabView lab, MaskView weight);
double sum_of(MaskView x);

}  // namespace palm_kits
