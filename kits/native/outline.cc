#include "outline.h"

#include <algorithm>

#include "gaussian.h"
#include "guided.h"
#include "regions.h"
#include "resize.h"

namespace palm_kits {
namespace {

// These are the numbers of palmkit.kits.tryon.outline, which says what each means.
constexpr double kFine = 2, kBandCm = 0.4, kAroundCm = 0.8, kShows[2] = {0.9, 0.99};
constexpr float kEnough = 0.02f, kAlike = 30;

// The mean colour of a side round each place, and how much of it is seen there.
Dense<float, 4> colour_of(View lit, const Mask& side, double sigma) {
  Dense<float, 4> sums(lit.width, lit.height);
  for (int row = 0; row < lit.height; ++row) {
    for (int i = 0; i < lit.width; ++i) {
      float* const at = sums.row(row) + 4 * i;
      at[3] = smoothstep(side.row(row)[i], kShows[0], kShows[1]);
      for (int c = 0; c < 3; ++c) at[c] = lit.row(row)[3 * i + c] * at[3];
    }
  }
  sums = soften<4>(sums.rows(), sigma);
  for (float* at = sums.data(); at != sums.data() + sums.size(); at += 4)
    for (int c = 0; c < 3; ++c) at[c] /= std::max(at[3], 1e-4f);
  return sums;
}

}  // namespace

Mask along_outline(View picture, const Mask& hair, double per_cm) {
  const int step = std::max(rounded(per_cm / kFine), 1);
  const int width = std::max(hair.width() / step, 1), height = std::max(hair.height() / step, 1);
  Picture small(width, height);
  Mask smooth(width, height), rest(width, height), offset = rest, trust = rest;
  resize_area<uint8_t, 3>(picture, small.rows());
  resize_area<float, 1>(hair.rows(), smooth.rows());
  smooth = soften(smooth, kBandCm * per_cm / step);
  for (size_t i = 0; i < rest.size(); ++i) rest.data()[i] = 1 - smooth.data()[i];
  const Dense<float, 4> front = colour_of(small, smooth, kAroundCm * per_cm / step);
  const Dense<float, 4> back = colour_of(small, rest, kAroundCm * per_cm / step);
  std::vector<Mask> slopes(3, trust);
  for (size_t i = 0; i < trust.size(); ++i) {
    const float *const to = front.data() + 4 * i, *const from = back.data() + 4 * i;
    float way[3], length = 0, base = 0;
    for (size_t c = 0; c < 3; ++c) way[c] = to[c] - from[c], length += way[c] * way[c];
    for (size_t c = 0; c < 3; ++c) {
      way[c] /= std::max(length, 1.f);
      slopes[c].data()[i] = way[c];
      base += way[c] * from[c];
    }
    offset.data()[i] = -base;
    const float seen = std::min(std::min(to[3], from[3]) / kEnough, 1.f);
    const float open = 4 * smooth.data()[i] * rest.data()[i];
    trust.data()[i] = open * length / (length + kAlike * kAlike) * seen;
  }
  Mask found(hair.width(), hair.height()), trust_here = found;
  guided_upsample(offset.rows(), slopes, picture, found.rows());
  resize_linear<float, 1>(trust.rows(), trust_here.rows());
  for (size_t i = 0; i < found.size(); ++i) {
    const float own = hair.data()[i];
    found.data()[i] = own + trust_here.data()[i] * (found.data()[i] - own);
  }
  return found;
}

}  // namespace palm_kits
