#include "steady.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "planes.h"
#include "resize.h"
#include "warp.h"

namespace palm_kits {
namespace {

// These are the numbers of palmkit.kits.portrait.steady, which says what each means.
constexpr double kSettleS = 0.2, kStill = 3, kMoved = 9, kCut = 48;

// Values of one view in another; unseen places are as at the border.
template <class T, int C>
Dense<T, C> moved(const Dense<T, C>& x, const Part& view, const Part& here, int width, int height) {
  Grid grid;
  for (int i = 0; i < width; ++i)
    grid.x.push_back(static_cast<float>(
        (here[0] + (i + 0.5) * here[2] / width - view[0]) * x.width() / view[2] - 0.5));
  for (int i = 0; i < height; ++i)
    grid.y.push_back(static_cast<float>(
        (here[1] + (i + 0.5) * here[3] / height - view[1]) * x.height() / view[3] - 0.5));
  Dense<T, C> y(width, height);
  remap<T, C>(x.rows(), grid, y.rows());
  return y;
}

// The weight of the new mask for each change of colour.
std::vector<float> weights(double step_s) {
  const double settled = -std::expm1(-step_s / kSettleS);
  std::vector<float> all;
  for (int i = 0; i < 256; ++i) {
    const double moved = std::min(std::max((i - kStill) / (kMoved - kStill), 0.0), 1.0);
    all.push_back(static_cast<float>(settled + (1 - settled) * moved));
  }
  return all;
}

}  // namespace

void Steady::update(Mask& mask, View small, const Part& view, double time_s) {
  Picture colours = blur(half<uint8_t, 3>(small), 3);
  if (last_) {
    const bool is_same = last_->view == view && last_->mask.width() == mask.width() &&
                         last_->mask.height() == mask.height();
    if (!is_same) {
      last_->mask = moved(last_->mask, last_->view, view, mask.width(), mask.height());
      last_->colours = moved(last_->colours, last_->view, view, colours.width(), colours.height());
    }
    Mask weight(colours.width(), colours.height());
    const std::vector<float> of_change = weights(time_s - last_->time_s);
    double total = 0;
    for (size_t i = 0; i < weight.size(); ++i) {
      int change = 0;
      for (size_t c = 3 * i; c < 3 * i + 3; ++c)
        change = std::max(change, std::abs(colours.data()[c] - last_->colours.data()[c]));
      weight.data()[i] = of_change[static_cast<size_t>(change)];
      total += change;
    }
    // Beyond that the two frames are of two scenes.
    if (total / static_cast<double>(weight.size()) < kCut) {
      Mask whole(mask.width(), mask.height());
      resize_linear<float, 1>(weight.rows(), whole.rows());
      for (size_t i = 0; i < mask.size(); ++i) {
        const float before = last_->mask.data()[i];
        mask.data()[i] = (mask.data()[i] - before) * whole.data()[i] + before;
      }
    }
  }
  last_ = Frame{mask, std::move(colours), view, time_s};
}

}  // namespace palm_kits
