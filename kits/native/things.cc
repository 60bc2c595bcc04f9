#include "things.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "face_points.h"
#include "gaussian.h"
#include "planes.h"
#include "resize.h"

namespace palm_kits {
namespace {

// These are the numbers of palmkit.kits.tryon.things, which says what each means.
constexpr double kFinePerCm = 5;
constexpr double kNear[3] = {22, 10, 10};
constexpr float kLeastSpread = 3.5f;
constexpr double kOther[2] = {3, 5}, kBlack[2] = {0.28, 0.45};
constexpr float kLips[2][2] = {{-4.f, 30.f}, {-16.f, 8.f}};
constexpr double kReach = 0.8, kShare[2] = {0.3, 0.6}, kShareEyes[2] = {0.55, 0.85};
constexpr double kPaleReach = 1.3, kPaleShare[2] = {0.6, 0.85};
constexpr double kWhite[2] = {84, 90}, kGrey[2] = {12, 7}, kGlare = 1.6;
constexpr double kSkinChroma[2] = {11, 15}, kSkinDarker[2] = {5, 10}, kGrowth = 0.9;

float smooth(float value, const double (&range)[2]) {
  return smoothstep(value, range[0], range[1]);
}

template <size_t N>
Line picked(const Line& points, const std::array<int, N>& rows) {
  Line line;
  for (int row : rows) line.push_back(points[static_cast<size_t>(row)]);
  return line;
}

// Of colours that differ from skin: those that are no highlight on it, and all.
struct Unlike {
  Mask coloured, all;
};

Unlike unlike(LabView lab, const Skin& skin, const Mask& lips) {
  Unlike found{Mask(lab.width, lab.height), Mask(lab.width, lab.height)};
  const float own = std::max(skin.mean[0], 1.f);
  for (int row = 0; row < lab.height; ++row) {
    for (int i = 0; i < lab.width; ++i) {
      const float* const at = lab.row(row) + 3 * i;
      const float light = at[0] - skin.mean[0];
      float coloured = 0, all = 0;
      for (size_t axis = 0; axis < 2; ++axis) {
        const float usual = skin.mean[axis + 1] + skin.slope[axis] * light;
        float off = at[axis + 1] - usual;
        if (lips.row(row)[i] > 0.5f) off -= std::min(std::max(off, kLips[axis][0]), kLips[axis][1]);
        const float spread = std::max(skin.spread[axis], kLeastSpread);
        all += off / spread * (off / spread);
        // A highlight is on the way from the skin's colour to white.
        const float back = std::max(usual > 0 ? -off : usual < 0 ? off : 0.f, 0.f);
        const float pale = std::min(back, std::abs(usual)) * smoothstep(light, 0, 8);
        const float beyond = std::max(std::abs(off) - pale, 0.f) / spread;
        coloured += beyond * beyond;
      }
      const float dark = smoothstep(at[0], kBlack[1] * own, kBlack[0] * own);
      found.coloured.row(row)[i] = std::max(smooth(std::sqrt(coloured), kOther), dark);
      found.all.row(row)[i] = std::max(smooth(std::sqrt(all), kOther), dark);
    }
  }
  return found;
}

// The largest, or the smallest, of the neighbours that `shape` names.
template <class Choose>
Mask chosen(const Mask& x, const std::vector<Offset>& shape, Choose choose) {
  Mask y(x.width(), x.height());
  for (int row = 0; row < x.height(); ++row) {
    for (int i = 0; i < x.width(); ++i) {
      float value = x.row(row)[i];
      for (const Offset& each : shape) {
        const int column = i + each.x, line = row + each.y;
        if (column >= 0 && column < x.width() && line >= 0 && line < x.height())
          value = choose(value, x.row(line)[column]);
      }
      y.row(row)[i] = value;
    }
  }
  return y;
}

Mask largest(const Mask& x, const std::vector<Offset>& shape) {
  return chosen(x, shape, [](float a, float b) { return std::max(a, b); });
}

// White over a place so wide that it is no highlight on skin.
Mask glare(LabView lab, const Skin& skin, double fine) {
  const double chroma = std::hypot(skin.mean[1], skin.mean[2]);
  // Skin of black-and-white and of burnt-out photos is white, too.
  const float may_be = smooth(static_cast<float>(chroma), kSkinChroma) *
                       smooth(static_cast<float>(kWhite[1]) - skin.mean[0], kSkinDarker);
  Mask white(lab.width, lab.height);
  for (int row = 0; row < lab.height; ++row) {
    for (int i = 0; i < lab.width; ++i) {
      const float* const at = lab.row(row) + 3 * i;
      white.row(row)[i] = smooth(at[0], kWhite) * smooth(std::hypot(at[1], at[2]), kGrey) * may_be;
    }
  }
  const std::vector<Offset> shape = disc(2 * rounded(kGlare * fine / 2) + 1);
  return largest(chosen(white, shape, [](float a, float b) { return std::min(a, b); }), shape);
}

Mask times(const Mask& a, const Mask& b) {
  Mask y = a;
  for (size_t i = 0; i < y.size(); ++i) y.data()[i] *= b.data()[i];
  return y;
}

}  // namespace

Skin skin_of(LabView lab, const Line& points, const float* trust) {
  struct Place {
    std::array<double, 3> colour;
    double weight;
  };
  std::vector<Place> places;
  double total = 0;
  for (int point : kPlainSkin) {
    const auto row = static_cast<size_t>(point);
    const int x = rounded(points[row].x - 0.5f), y = rounded(points[row].y - 0.5f);
    const bool inside = x >= 0 && y >= 0 && x < lab.width && y < lab.height;
    const float* const at =
        lab.row(clamped(y, 0, lab.height - 1)) + 3 * clamped(x, 0, lab.width - 1);
    // Skin of every tone is somewhere between red and yellow.
    const double share = at[1] > 0 && at[2] > 0 ? 1 : 0.25;
    places.push_back({{at[0], at[1], at[2]}, ((inside ? trust[row] : 0.0) + 1e-6) * share});
    total += places.back().weight;
  }
  std::array<double, 3> mean{};
  for (size_t c = 0; c < 3; ++c) {
    std::stable_sort(places.begin(), places.end(),
                     [&](const Place& a, const Place& b) { return a.colour[c] < b.colour[c]; });
    double passed = 0;
    for (const Place& each : places) {
      passed += each.weight;
      mean[c] = each.colour[c];
      if (passed / total > 0.5) break;
    }
  }
  std::vector<double> near(places.size());
  for (int round = 0; round < 4; ++round) {
    std::array<double, 3> sums{};
    total = 0;
    for (size_t i = 0; i < places.size(); ++i) {
      double away = 0;
      for (size_t c = 0; c < 3; ++c) {
        const double off = (places[i].colour[c] - mean[c]) / kNear[c];
        away += off * off;
      }
      near[i] = places[i].weight * std::exp(-0.5 * away), total += near[i];
      for (size_t c = 0; c < 3; ++c) sums[c] += near[i] * places[i].colour[c];
    }
    for (size_t c = 0; c < 3; ++c) mean[c] = sums[c] / total;
  }
  double light = 0, along[2] = {}, spread[2] = {}, slope[2];
  for (size_t i = 0; i < places.size(); ++i) {
    near[i] /= total;
    const double off = places[i].colour[0] - mean[0];
    light += near[i] * off * off;
    for (size_t axis = 0; axis < 2; ++axis)
      along[axis] += near[i] * off * (places[i].colour[axis + 1] - mean[axis + 1]);
  }
  Skin skin;
  for (size_t axis = 0; axis < 2; ++axis) {
    // As under one light: hue is stronger where it is lighter; what is seen draws it elsewhere.
    const double usual = mean[axis + 1] / std::max(mean[0], 10.0);
    slope[axis] = (along[axis] + 60 * usual) / (light + 60);
    for (size_t i = 0; i < places.size(); ++i) {
      const double rest = places[i].colour[axis + 1] - mean[axis + 1] -
                          (places[i].colour[0] - mean[0]) * slope[axis];
      spread[axis] += near[i] * rest * rest;
    }
    skin.slope[axis] = static_cast<float>(slope[axis]);
    skin.spread[axis] = static_cast<float>(std::sqrt(spread[axis]));
  }
  for (size_t c = 0; c < 3; ++c) skin.mean[c] = static_cast<float>(mean[c]);
  return skin;
}

Mask find_things(View picture, const Line& points, const float* trust, double per_cm,
                 const Settle& settle) {
  const int step = std::max(rounded(per_cm / kFinePerCm), 1);
  const int width = std::max(picture.width / step, 1), height = std::max(picture.height / step, 1);
  Picture small(width, height);
  resize_area<uint8_t, 3>(picture, small.rows());
  const float scale_x = static_cast<float>(static_cast<double>(width) / picture.width);
  const float scale_y = static_cast<float>(static_cast<double>(height) / picture.height);
  const double fine = per_cm / step;
  Line at = points;
  for (Point& each : at) each = {each.x * scale_x, each.y * scale_y};
  const LabImage lab = soften<3>(to_lab(small).rows(), 0.06 * fine);
  const Skin seen = skin_of(lab.rows(), at, trust);
  std::vector<float> known{seen.mean[0],  seen.mean[1],   seen.mean[2],  seen.slope[0],
                           seen.slope[1], seen.spread[0], seen.spread[1]};
  settle(known);
  const Skin skin{{known[0], known[1], known[2]}, {known[3], known[4]}, {known[5], known[6]}};
  const auto region = [&](const std::vector<Line>& loops, double blur) {
    return soften(filled(width, height, loops), blur * fine);
  };
  const Mask lips = region({curve(picked(at, kLipsOuter), true)}, 0.1);
  const Mask eyes =
      region({curve(picked(at, kRightEye), true), curve(picked(at, kLeftEye), true)}, 0.35);
  const Mask brows = region({picked(at, kRightBrow), picked(at, kLeftBrow)}, 0.15);
  Mask plain = filled(width, height, {curve(picked(at, kFaceOval), true)});
  Mask away_from_eyes(width, height);
  for (size_t i = 0; i < plain.size(); ++i) {
    const bool bare = lips.data()[i] < 0.1f && eyes.data()[i] < 0.06f && brows.data()[i] < 0.1f;
    if (!bare) plain.data()[i] = 0;
    away_from_eyes.data()[i] = 1 - smoothstep(eyes.data()[i], 0.02, 0.1);
  }
  Unlike found = unlike(lab.rows(), skin, lips);
  const Mask white = glare(lab.rows(), skin, fine);
  for (size_t i = 0; i < white.size(); ++i) {
    found.coloured.data()[i] = std::max(found.coloured.data()[i], white.data()[i]);
    found.all.data()[i] = std::max(found.all.data()[i], white.data()[i]);
  }
  Mask covered(width, height);
  const std::vector<Offset> near = square(2 * rounded(kGrowth * fine) + 1);
  const auto cover = [&](const Mask& other, double reach, const double (&least)[2]) {
    const Mask asked = soften(plain, reach * fine);
    const Mask share = soften(times(other, plain), reach * fine);
    Mask most(width, height);
    for (size_t i = 0; i < most.size(); ++i) {
      const float part = share.data()[i] / std::max(asked.data()[i], 1e-3f);
      most.data()[i] =
          std::max(smooth(part, least) * away_from_eyes.data()[i], smooth(part, kShareEyes));
    }
    // Up to the thing's edges, where half of what is round is the face.
    const Mask grown = largest(times(other, most), near);
    for (size_t i = 0; i < most.size(); ++i) {
      const float share_of = std::max(most.data()[i], grown.data()[i] * away_from_eyes.data()[i]);
      covered.data()[i] = std::max(covered.data()[i], other.data()[i] * share_of);
    }
  };
  cover(found.coloured, kReach, kShare);
  cover(found.all, kPaleReach, kPaleShare);
  Mask y(picture.width, picture.height);
  resize_linear<float, 1>(soften(covered, 0.05 * fine).rows(), y.rows());
  return y;
}

}  // namespace palm_kits
