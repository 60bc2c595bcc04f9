#include "lipstick.h"

#include <algorithm>
#include <cmath>

#include "face_points.h"
#include "gaussian.h"
#include "shimmer.h"

namespace palm_kits {
namespace {

// These are the numbers of palmkit.kits.tryon.makeup and colour, which say what each means.
constexpr std::array<int, 5> kShineOuter{181, 84, 17, 314, 405}, kShineInner{178, 87, 14, 317, 402};
constexpr float kShine = 26, kLeastSeen = 0.3f, kBlackLips = 1, kBlack = 4, kMottle = 0.5f;
constexpr float kLights[] = {0.55f, 1.f, 1.45f, 1.1f};
constexpr double kCalm = 0.65;

LabView part_of(LabImage& lab, const Box& part) {
  return LabView(lab.rows()).part(part.left, part.top, part.right, part.bottom);
}

// How far pixels look like lips, not like teeth or a dark mouth.
void keep_lips(Canvas& canvas, LabView lab, Mask& mask) {
  Mask sure = mask;
  std::for_each(sure.data(), sure.data() + sure.size(), [](float& x) { x *= x; });
  const Lab base = canvas.base("lips", lab, sure.rows());
  const double typical = std::max(static_cast<double>(std::hypot(base[1], base[2])), 6.0);
  const double own = std::max(base[0], kBlackLips), light = base[0];
  for (int row = 0; row < lab.height; ++row) {
    for (int i = 0; i < lab.width; ++i) {
      const float* const at = lab.row(row) + 3 * i;
      const float tooth = smoothstep(at[0], light + 9, light + 22) *
                          smoothstep(std::hypot(at[1], at[2]), 0.85 * typical, 0.5 * typical);
      mask.row(row)[i] *= (1 - tooth) * (1 - smoothstep(at[0], 0.55 * own, 0.3 * own));
    }
  }
}

// What gloss adds along the middle of the lower lip, broken by the lip's texture.
Mask gloss(const Worn& worn, const Canvas& canvas, LabView lab, Point corner) {
  const Line outer = canvas.picked(kShineOuter), inner = canvas.picked(kShineInner);
  Line lines[2];
  for (size_t i = 0; i < outer.size(); ++i) {
    const Point at = inner[i] - corner, thick = (outer[i] - corner) - at;
    lines[0].push_back({at.x + thick.x * 0.28f, at.y + thick.y * 0.28f});
    lines[1].push_back({at.x + thick.x * 0.55f, at.y + thick.y * 0.55f});
  }
  const double height = std::hypot(outer[2].x - inner[2].x, outer[2].y - inner[2].y);
  Mask wet =
      soften(band(lab.width, lab.height, curve(lines[0], false), curve(lines[1], false), false),
             std::max(0.13 * height, 0.4));
  Mask light(lab.width, lab.height);
  for (int row = 0; row < lab.height; ++row)
    for (int i = 0; i < lab.width; ++i) light.row(row)[i] = lab.row(row)[3 * i];
  const Mask smooth = soften(light, std::max(0.12 * height, 0.6));
  for (size_t i = 0; i < wet.size(); ++i) {
    const float fine = light.data()[i] - smooth.data()[i];
    const float broken = std::min(std::max(0.75f + fine * 0.12f, 0.2f), 1.5f);
    wet.data()[i] = wet.data()[i] * broken * (kShine * worn.opacity);
  }
  return wet;
}

// Gives a region a colour; its shading, texture and highlights stay.
void dye(Rows<float, 3> lab, const Mask& weight, const Worn& worn, const Lab& base) {
  const float before = std::max(base[0], kBlack), after = std::max(worn.colour[0], kBlack);
  const float lights = kLights[static_cast<size_t>(worn.finish)];
  const double lift = static_cast<double>(after) / before;
  const auto power = static_cast<float>(std::pow(lift, -kCalm));
  for (int row = 0; row < lab.height; ++row) {
    for (int i = 0; i < lab.width; ++i) {
      float* const at = lab.row(row) + 3 * i;
      const float share = weight.row(row)[i] * worn.opacity;
      if (share == 0) continue;
      float light = std::max(at[0] * (1 / before), 0.02f);
      light += std::max(light - 1, 0.f) * (lights - 1);
      if (lift > 1) light = std::pow(light, power);
      light *= after;
      // Towards white a highlight loses the colour of what it lies on.
      float keep = (light - after) * (1 / std::max(100 - after, 12.f));
      keep = std::min(std::max(keep, 0.f), 1.f);
      keep = 1 - keep * keep;
      // At a soft edge lighter pixels are the background shining through, which is not made
      // lighter.
      const float most = share * share * (share * share * (0.4f * after)) + 1.04f * after;
      light = std::min(std::min(light, std::max(most, at[0])), 100.f);
      at[0] += share * (light - at[0]);
      for (size_t axis = 1; axis < 3; ++axis) {
        const float hue = (at[axis] * kMottle + (worn.colour[axis] - kMottle * base[axis])) * keep;
        at[axis] += share * (hue - at[axis]);
      }
    }
  }
}

}  // namespace

void lay_lipstick(const Worn& worn, Canvas& canvas) {
  const Line outer = canvas.picked(kLipsOuter), inner = canvas.picked(kLipsInner);
  const Box part = canvas.part(outer, 0.4);
  const int width = part.width(), height = part.height();
  if (width <= 0 || height <= 0 || canvas.seen(kLipsOuter) < kLeastSeen) return;
  const Point corner{static_cast<float>(part.left), static_cast<float>(part.top)};
  const Point back{-corner.x, -corner.y};
  const Line line = curve(moved(outer, back), true), other = curve(moved(inner, back), true);
  Mask mask = band(width, height, line, other, true);
  const Mask mouth = filled(width, height, {other});
  for (size_t i = 0; i < mask.size(); ++i) mask.data()[i] *= 1 - mouth.data()[i];
  mask = soften(mask, 0.05 * canvas.per_cm());
  const Mask& free = canvas.free();
  for (int row = 0; row < height; ++row)
    for (int i = 0; i < width; ++i) mask.row(row)[i] *= free.row(part.top + row)[part.left + i];
  const LabView lab = part_of(canvas.lab(), part);
  keep_lips(canvas, lab, mask);
  const Lab base = canvas.base("lipstick", lab, mask.rows());
  Mask shine;
  if (worn.finish == Finish::gloss) shine = gloss(worn, canvas, lab, corner);
  if (worn.finish == Finish::shimmer) {
    shine = sparkle(canvas, width, height, corner);
    std::for_each(shine.data(), shine.data() + shine.size(), [&](float& x) { x *= worn.opacity; });
  }
  const Rows<float, 3> own = canvas.lab().rows().part(part.left, part.top, part.right, part.bottom);
  dye(own, mask, worn, base);
  if (shine.size()) {
    for (int row = 0; row < height; ++row) {
      for (int i = 0; i < width; ++i) {
        float& light = own.row(row)[3 * i];
        light = std::min(std::max(light + shine.row(row)[i] * mask.row(row)[i], 0.f), 100.f);
      }
    }
  }
  canvas.mark(part, mask.rows());
}

}  // namespace palm_kits
