#include "hair_dye.h"

#include <algorithm>
#include <cmath>

#include "gaussian.h"
#include "resize.h"

namespace palm_kits {
namespace {

// These are the numbers of palmkit.kits.tryon.hair, which says what each means.
constexpr float kNone = 0.12f, kSpan = 0.88f - 0.12f, kLeast = 1.f / 64;
constexpr double kShadeCm = 0.9, kGridSigma = 2;
constexpr double kShadeUp = 0.5, kShadeDown = 0.9, kStrandsUp = 0.38, kStrandsDown = 0.7;
constexpr double kMostGain = 1.9, kDepth = 0.85, kBlack = 4, kWhite = 98;
constexpr float kMottle = 0.35f, kLights[] = {0.55f, 1.f, 1.45f};

using Shade = Dense<float, 4>;

// One of `stride` pixels each way, from the first on.
template <class T, int C>
Dense<T, C> thinned(Rows<const T, C> x, int stride) {
  Dense<T, C> y((x.width + stride - 1) / stride, (x.height + stride - 1) / stride);
  for (int row = 0; row < y.height(); ++row)
    for (int i = 0; i < y.width(); ++i)
      std::copy_n(x.row(row * stride) + C * i * stride, C, y.row(row) + C * i);
  return y;
}

// The hair's colour without its strands, and its mean; the fourth value is still 0.
Shade shade_of(View picture, MaskView hair, double per_cm, Lab* mean) {
  const int step = std::max(rounded(kShadeCm * per_cm / kGridSigma), 1);
  const int width = std::max(hair.width / step, 1), height = std::max(hair.height / step, 1);
  // Whole squares alone, and of large ones a part of the pixels: their means are quick.
  const int stride = std::max(step / 3, 1), right = std::min(width * step, hair.width);
  const int bottom = std::min(height * step, hair.height);
  Picture small(width, height);
  resize_area<uint8_t, 3>(thinned<uint8_t, 3>(picture.part(0, 0, right, bottom), stride),
                          small.rows());
  Mask weight(width, height);
  resize_area<float, 1>(thinned<float, 1>(hair.part(0, 0, right, bottom), stride), weight.rows());
  const LabImage lab = to_lab(small);
  Mask squares = weight;
  std::for_each(squares.data(), squares.data() + squares.size(), [](float& x) { x *= x; });
  *mean = mean_of(lab, squares);
  Shade sums(width, height);
  for (size_t i = 0; i < weight.size(); ++i) {
    // Far from any hair that is sure it is the mean.
    const float share = squares.data()[i] * weight.data()[i];
    for (size_t c = 0; c < 3; ++c) sums.data()[4 * i + c] = lab.data()[3 * i + c] * share;
    sums.data()[4 * i + 3] = share;
  }
  sums = soften<4>(sums.rows(), kShadeCm * per_cm / step);
  for (size_t i = 0; i < weight.size(); ++i) {
    float* const at = sums.data() + 4 * i;
    const float total = at[3] + 0.01f;
    for (size_t c = 0; c < 3; ++c) at[c] = (at[c] + 0.01f * (*mean)[c]) / total;
    at[3] = 0;
  }
  return sums;
}

// From 0 up, bent so that it stays below `room`.
float limited(float value, double room) {
  return (1 - std::exp(value * static_cast<float>(-1 / room))) * static_cast<float>(room);
}

}  // namespace

void dye_hair(const Worn& worn, Rows<uint8_t, 3> picture, MaskView hair, double per_cm,
              Memory& memory, std::optional<double> time_s) {
  bool any = false;
  for (int row = 0; row < hair.height && !any; ++row)
    any =
        std::any_of(hair.row(row), hair.row(row) + hair.width, [](float x) { return x > kLeast; });
  if (!any) return;
  Lab mean;
  Shade grid = shade_of(picture, hair, per_cm, &mean);
  mean = memory.settle("hair", mean, time_s);
  const double after = std::max(static_cast<double>(worn.colour[0]), kBlack);
  const double lift = after / std::max(static_cast<double>(mean[0]), kBlack);
  const auto tone = static_cast<float>(after);
  // How much lighter than the dye dyed hair is, where its own shade is this light.
  const auto power = static_cast<float>(lift > 1 ? kShadeUp : kShadeDown);
  for (int row = 0; row < grid.height(); ++row) {
    for (int i = 0; i < grid.width(); ++i) {
      float* const at = grid.row(row) + 4 * i;
      const float light = std::max(at[0] * static_cast<float>(lift / after), 0.05f);
      at[3] = (std::pow(light, power) - 1) * tone;
    }
  }
  Shade shade(hair.width, hair.height);
  resize_linear<float, 4>(grid.rows(), shade.rows());
  const auto strands =
      static_cast<float>(std::min(std::pow(lift, lift > 1 ? kStrandsUp : kStrandsDown), kMostGain));
  const double room = std::max(kWhite - after, 4.0), depth = kDepth * after;
  const auto white = static_cast<float>(1 / std::max(100 - after, 12.0));
  const float lights = kLights[static_cast<size_t>(worn.finish)];
  for (int row = 0; row < hair.height; ++row) {
    for (int i = 0; i < hair.width; ++i) {
      float weight = hair.row(row)[i];
      if (!(weight > kLeast)) continue;
      const float* const base = shade.row(row) + 4 * i;
      uint8_t* const rgb = picture.row(row) + 3 * i;
      float own[3];
      to_lab(rgb, 1, own);
      // What a mixed pixel has more or less than the hair round it is more the background's.
      const float sure = weight * weight * weight, detail = (own[0] - base[0]) * sure;
      const float off = base[3] + detail * strands;
      // Towards white and black all that is left of the room is shared, so that nothing is cut.
      const float up = limited(std::max(off, 0.f) * lights, room);
      const float dyed = tone + up - limited(std::max(-off, 0.f), depth);
      // A shadow has less of the colour, as it has less light; a highlight has the light's own.
      const float tint =
          std::min(dyed * static_cast<float>(1 / after), 1.f) * (1 - up * white * (up * white));
      weight *= worn.opacity;
      const float light = own[0];
      own[0] += weight * (dyed - (base[0] + detail));
      for (size_t axis = 1; axis < 3; ++axis) {
        const float hue = base[axis] + (own[axis] - base[axis]) * sure;
        const float mottled = hue * kMottle + (worn.colour[axis] - kMottle * mean[axis]);
        own[axis] += weight * (tint * mottled - hue);
      }
      // What lies between dyed hair and a background is no lighter or darker than both.
      own[0] = std::min(std::max(own[0], std::min(light, dyed)), std::max(light, dyed));
      to_rgb(own, 1, rgb);
    }
  }
}

void to_coverage(Mask& mask) {
  std::for_each(mask.data(), mask.data() + mask.size(),
                [](float& x) { x = std::min(std::max((x - kNone) * (1 / kSpan), 0.f), 1.f); });
}

}  // namespace palm_kits
