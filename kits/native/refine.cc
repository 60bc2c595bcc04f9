#include "refine.h"

#include <algorithm>
#include <cmath>

#include "guided.h"
#include "planes.h"
#include "resize.h"

namespace palm_kits {
namespace {

// These are the numbers of palmkit.kits.portrait.refine, which says what each means.
constexpr int kEdge = 5, kMostParts = 256;
constexpr double kAlphaLeast = 256, kAlphaMost = 1024;
constexpr float kSpeck = 0.05f, kInside = 0.5f, kFirmness = 4.f;
constexpr float kAlphaLow = 0.04f, kAlphaHigh = 0.96f;
struct Trust {
  float reach, weight;
};
constexpr Trust kMaskTrust{2.f, 2.f}, kAlphaTrust{3.f, 4.f};

std::vector<Mask> planes_of(View x, bool in_colours) {
  std::vector<Mask> planes(in_colours ? 3 : 1, Mask(x.width, x.height));
  for (int row = 0; row < x.height; ++row) {
    const uint8_t* rgb = x.row(row);
    for (int i = 0; i < x.width; ++i, rgb += 3) {
      const int grey = (rgb[0] * 9798 + rgb[1] * 19235 + rgb[2] * 3735 + (1 << 14)) >> 15;
      for (size_t k = 0; k < planes.size(); ++k)
        planes[k].row(row)[i] = static_cast<float>(in_colours ? rgb[k] : grey) * (1.f / 255.f);
    }
  }
  return planes;
}

void judge(View image, bool in_colours, MaskView coarse, View small, Trust trust,
           Rows<float, 1> to) {
  // Neighbourhoods are smooth: half the resolution holds them.
  Fit fit = guided_fit(half<float, 1>(coarse), planes_of(half<uint8_t, 3>(small), in_colours),
                       trust.reach / 2, trust.weight);
  Mask offset(coarse.width, coarse.height);
  resize_linear<float, 1>(fit.drop.rows(), offset.rows());
  for (int row = 0; row < coarse.height; ++row)
    for (int i = 0; i < coarse.width; ++i)
      offset.row(row)[i] = coarse.row(row)[i] - offset.row(row)[i];
  for (Mask& each : fit.slopes)
    std::for_each(each.data(), each.data() + each.size(), [](float& x) { x *= 1.f / 255.f; });
  guided_upsample(offset.rows(), fit.slopes, image, to);
}

// More certain where it is not near its edge: what is uncertain there is no mixture.
void settle(Mask& coarse) {
  const Bytes inside = above(coarse, kInside);
  const std::vector<Offset> around = disc(2 * kEdge + 1);
  const Bytes high = largest(inside, around), low = smallest(inside, around);
  Mask edge(coarse.width(), coarse.height());
  for (size_t i = 0; i < edge.size(); ++i)
    edge.data()[i] = static_cast<float>(high.data()[i] - low.data()[i]);
  const Mask near = blur(edge, kEdge);
  for (size_t i = 0; i < coarse.size(); ++i) {
    float& value = coarse.data()[i];
    const float firm = std::min(std::max((value - 0.5f) * kFirmness + 0.5f, 0.f), 1.f);
    value = firm + near.data()[i] * (value - firm);
  }
}

}  // namespace

void refine(View image, MaskView coarse, View small, Rows<float, 1> to) {
  judge(image, false, coarse, small, kMaskTrust, to);
}

void opacity(View image, MaskView mask, Rows<float, 1> to) {
  for (int row = 0; row < to.height; ++row) std::fill_n(to.row(row), to.width, 0.f);
  const Box found = bounds(above(mask, kAlphaLow));
  if (!found.width()) return;
  // A little more than the person, so that there is background on every side.
  const int margin = std::max(found.width(), found.height()) / 16 + 1;
  const int left = std::max(found.left - margin, 0), top = std::max(found.top - margin, 0);
  const int right = std::min(found.right + margin, mask.width);
  const int bottom = std::min(found.bottom + margin, mask.height);
  image = image.part(left, top, right, bottom), mask = mask.part(left, top, right, bottom);
  to = to.part(left, top, right, bottom);
  const double side = std::max(mask.width, mask.height);
  const double scale = std::min({std::max(0.5, kAlphaLeast / side), kAlphaMost / side, 1.0});
  Mask coarse(std::max(rounded(mask.width * scale), 1), std::max(rounded(mask.height * scale), 1));
  resize_area<float, 1>(mask, coarse.rows());
  settle(coarse);
  const Picture small = resize(image, coarse.width(), coarse.height());
  judge(image, true, coarse, small, kAlphaTrust, to);
  constexpr float kScale = 1.f / (kAlphaHigh - kAlphaLow);
  for (int row = 0; row < to.height; ++row)
    for (int i = 0; i < to.width; ++i)
      to.row(row)[i] = std::min(std::max((to.row(row)[i] - kAlphaLow) * kScale, 0.f), 1.f);
}

void fade_specks(Mask& coarse) {
  // Blocks of four by four hold all that matters: those with any person at all.
  Bytes inside((coarse.width() + 3) / 4, (coarse.height() + 3) / 4);
  for (int row = 0; row < coarse.height(); ++row)
    for (int i = 0; i < coarse.width(); ++i)
      if (coarse.row(row)[i] > kInside) inside.row(row / 4)[i / 4] = 1;
  const Parts parts = connected(inside);
  // Hundreds of parts are noise, none of which is a speck beside the others.
  if (parts.count < 3 || parts.count > kMostParts) return;
  const auto all = static_cast<int>(inside.size());
  const float people = static_cast<float>(all - parts.areas[0]);
  Bytes specks(inside.width(), inside.height());
  bool any = false;
  for (size_t i = 0; i < inside.size(); ++i) {
    const int label = parts.labels[i];
    const auto area = static_cast<float>(parts.areas[static_cast<size_t>(label)]);
    specks.data()[i] = label && area < kSpeck * people;
    any = any || specks.data()[i];
  }
  if (!any) return;
  // As far as a speck's surroundings reach, and the zeros behind them.
  Box box = bounds(specks);
  box = {std::max(box.left - 4, 0), std::max(box.top - 4, 0),
         std::min(box.right + 4, specks.width()), std::min(box.bottom + 4, specks.height())};
  const Bytes part =
      copied<uint8_t, 1>(BytesView(specks).part(box.left, box.top, box.right, box.bottom));
  const BytesView own = BytesView(inside).part(box.left, box.top, box.right, box.bottom);
  // The surroundings of a speck fade with it, and other people stay.
  const Bytes wide = largest(part, square(5));
  Mask around(wide.width(), wide.height());
  for (size_t i = 0; i < around.size(); ++i) around.data()[i] = wide.data()[i];
  around = blur(around, 3);
  for (int row = 0; row < around.height(); ++row) {
    for (int i = 0; i < around.width(); ++i) {
      float& value = around.row(row)[i];
      if (own.row(row)[i] > part.row(row)[i]) value = 0;
      value = 1.f - 0.8f * value;
    }
  }
  Mask factor(4 * around.width(), 4 * around.height());
  resize_linear<float, 1>(around.rows(), factor.rows());
  const int bottom = std::min(4 * box.bottom, coarse.height());
  const int right = std::min(4 * box.right, coarse.width());
  for (int row = 4 * box.top; row < bottom; ++row)
    for (int i = 4 * box.left; i < right; ++i)
      coarse.row(row)[i] *= factor.row(row - 4 * box.top)[i - 4 * box.left];
}

bool keep_large_parts(Mask& coarse, double least) {
  const Parts parts = connected(above(coarse, kInside));
  Bytes kept(coarse.width(), coarse.height());
  bool any = false;
  for (size_t i = 0; i < kept.size(); ++i) {
    const int label = parts.labels[i];
    const double area = parts.areas[static_cast<size_t>(label)];
    kept.data()[i] = label && area >= least * static_cast<double>(coarse.size());
    any = any || kept.data()[i];
  }
  // What is uncertain round a part, up to two pixels, stays with it.
  const Bytes wide = largest(kept, square(5));
  for (size_t i = 0; i < wide.size(); ++i)
    if (!wide.data()[i]) coarse.data()[i] = 0;
  return any;
}

}  // namespace palm_kits
