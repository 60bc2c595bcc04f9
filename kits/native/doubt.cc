#include "doubt.h"

#include <algorithm>
#include <cmath>

#include "face_points.h"
#include "gaussian.h"
#include "resize.h"
#include "things.h"

namespace palm_kits {
namespace {

// These are the numbers of palmkit.kits.tryon.doubt, which says what each means.
constexpr float kSure = 0.9f, kSpread[3] = {10, 4, 4}, kSkinLight = 12, kMostEvidence = 3.5f;
constexpr float kCrown[2] = {0.6f, 0.5f}, kClaimed = 0.8f;
constexpr double kBegins[2] = {-0.1, 0.1}, kDoubted[2] = {0.79, 0.85}, kSureItself[2] = {0.7, 0.85};
constexpr double kFine = 64, kReach = 0.12, kGrain = 0.02, kSteady = 0.06;
constexpr float kCounts = 0.5f, kNone = 0.1f, kShows = 0.95f;
constexpr int kLeast = 10;
constexpr double kUnsure[2] = {0.6, 0.8}, kOpenToColour[2] = {0.95, 0.9};
constexpr float kCell[3] = {6.25f, 6, 6}, kLow[3] = {0, -96, -96};
constexpr int kCells[3] = {17, 33, 33}, kAllCells = 17 * 33 * 33;
constexpr float kRare = 1e-4f, kMostSaid = 5;

// A mask's value after evidence, the logarithm of odds.
float weighed(float value, float said) {
  const float odds = std::exp(said);
  return value * odds / (1 - value + value * odds);
}

// How often each cell of colours is seen, blurred to its neighbours; of 1 in all, or of 0.
std::vector<float> shares(const std::vector<int>& cells) {
  std::vector<float> now(kAllCells), next(kAllCells);
  for (int cell : cells) ++now[static_cast<size_t>(cell)];
  int step = kAllCells;
  for (int axis = 0; axis < 3; ++axis) {
    const int length = kCells[axis];
    step /= length;
    for (int i = 0; i < kAllCells; ++i) {
      const int place = i / step % length;
      const auto at = static_cast<size_t>(i), by = static_cast<size_t>(step);
      next[at] = now[at] * 0.5f + (place ? now[at - by] * 0.25f : 0.f) +
                 (place + 1 < length ? now[at + by] * 0.25f : 0.f);
    }
    now.swap(next);
  }
  const auto count = static_cast<float>(std::max<size_t>(cells.size(), 1));
  for (float& each : now) each /= count;
  return now;
}

// What each pixel's colour says against hair, 0 and less, by where it shows and where there is
// none.
Mask said_by_colours(const LabImage& lab, const std::vector<bool>& hair,
                     const std::vector<bool>& other) {
  std::vector<int> cells, seen[2];
  for (size_t i = 0; i < hair.size(); ++i) {
    int cell = 0;
    for (size_t c = 0; c < 3; ++c) {
      const int at = rounded((lab.data()[3 * i + c] - kLow[c]) / kCell[c]);
      cell = cell * kCells[c] + clamped(at, 0, kCells[c] - 1);
    }
    cells.push_back(cell);
    if (hair[i]) seen[0].push_back(cell);
    if (other[i]) seen[1].push_back(cell);
  }
  const std::vector<float> as_hair = shares(seen[0]), as_other = shares(seen[1]);
  Mask said(lab.width(), lab.height());
  for (size_t i = 0; i < said.size(); ++i) {
    const auto cell = static_cast<size_t>(cells[i]);
    const float odds = std::log(as_hair[cell] + kRare) - std::log(as_other[cell] + kRare);
    said.data()[i] = std::min(std::max(odds, -kMostSaid), 0.f);
  }
  return said;
}

}  // namespace

void drop_skin(View picture, const Box& part, Mask& mask, const Line& points,
               const float* visibility) {
  float low[2] = {1e6f, 1e6f}, high[2] = {-1e6f, -1e6f};
  for (const Point& each : points) {
    low[0] = std::min(low[0], each.x), high[0] = std::max(high[0], each.x);
    low[1] = std::min(low[1], each.y), high[1] = std::max(high[1], each.y);
  }
  const Box face{std::max(static_cast<int>(low[0]), 0), std::max(static_cast<int>(low[1]), 0),
                 std::min(static_cast<int>(high[0]) + 1, picture.width),
                 std::min(static_cast<int>(high[1]) + 1, picture.height)};
  Mask sure = mask;
  std::for_each(sure.data(), sure.data() + sure.size(), [](float& x) { x = x > kSure ? x : 0; });
  if (face.left >= face.right || face.top >= face.bottom || sum_of(sure) < 1) return;
  const Point back{static_cast<float>(-face.left), static_cast<float>(-face.top)};
  const LabImage around = to_lab(picture.part(face.left, face.top, face.right, face.bottom));
  const Skin skin = skin_of(around, moved(points, back), visibility);
  LabImage lab = to_lab(picture.part(part.left, part.top, part.right, part.bottom));
  const Lab hair = mean_of(lab, sure);
  LabImage squares(lab.width(), lab.height());
  for (size_t i = 0; i < lab.size(); ++i) {
    const float off = lab.data()[i] - hair[i % 3];
    squares.data()[i] = off * off;
  }
  const Lab mean_square = mean_of(squares, sure);
  const float of_skin[3] = {kSkinLight, skin.spread[0], skin.spread[1]};
  float spread[2][3], constant[2] = {};
  for (size_t c = 0; c < 3; ++c) {
    spread[0][c] = std::max(std::sqrt(mean_square[c]), kSpread[c]);
    spread[1][c] = std::max(of_skin[c], kSpread[c]);
    for (size_t i = 0; i < 2; ++i) constant[i] += std::log(spread[i][c]);
  }
  Mask against(mask.width(), mask.height());
  for (size_t i = 0; i < against.size(); ++i) {
    const float* const at = lab.data() + 3 * i;
    float far[2] = {};
    for (size_t c = 0; c < 3; ++c) {
      const float from_hair = (at[c] - hair[c]) / spread[0][c];
      // Skin's hue follows its lightness.
      const float usual = c ? (at[0] - skin.mean[0]) * skin.slope[c - 1] : 0;
      const float from_skin = (at[c] - skin.mean[c] - usual) / spread[1][c];
      far[0] += from_hair * from_hair, far[1] += from_skin * from_skin;
    }
    const float odds = far[0] / 2 + constant[0] - (far[1] / 2 + constant[1]);
    against.data()[i] = std::min(std::max(odds, 0.f), kMostEvidence);
  }
  // A single pixel may be noise.
  against = soften(against, std::max(0.004 * (static_cast<double>(high[1]) - low[1]), 0.7));
  for (size_t i = 0; i < mask.size(); ++i)
    mask.data()[i] = weighed(mask.data()[i], -against.data()[i]);
}

void drop_hats(Mask& mask, const Mask& otherwise, const Line& points) {
  const Point top = points[kForehead], axis = top - points[kChin];
  const float length = static_cast<float>(
      std::max(std::hypot(static_cast<double>(axis.x), static_cast<double>(axis.y)), 1e-3));
  const float x = axis.x / length, y = axis.y / length;
  const auto above = [&](int column, int row) {
    const float across = static_cast<float>(column) - top.x, down = static_cast<float>(row) - top.y;
    return (across * x + down * y) / length;
  };
  double sum = 0;
  int count = 0;
  for (int row = 0; row < mask.height(); ++row) {
    for (int i = 0; i < mask.width(); ++i) {
      const float across = static_cast<float>(i) - top.x, down = static_cast<float>(row) - top.y;
      const float beside = std::abs(across * y - down * x) / length, up = above(i, row);
      if (!(up > 0 && up < kCrown[0] && beside < kCrown[1] && mask.row(row)[i] > kClaimed))
        continue;
      sum += otherwise.row(row)[i], ++count;
    }
  }
  if (count < kLeast) return;
  const float head = smoothstep(static_cast<float>(sum / count), kDoubted[0], kDoubted[1]);
  if (head == 1) return;
  for (int row = 0; row < mask.height(); ++row) {
    for (int i = 0; i < mask.width(); ++i) {
      const float below = 1 - smoothstep(above(i, row), kBegins[0], kBegins[1]);
      const float itself = smoothstep(otherwise.row(row)[i], kSureItself[0], kSureItself[1]);
      mask.row(row)[i] *= std::max(head, below * itself);
    }
  }
}

void drop_doubtful(View picture, Mask& mask, double side) {
  const int step = std::max(rounded(side / kFine), 1);
  const int width = std::max(mask.width() / step, 1), height = std::max(mask.height() / step, 1);
  Picture small(step > 1 ? width : mask.width(), step > 1 ? height : mask.height());
  Mask coarse(small.width(), small.height());
  resize_area<uint8_t, 3>(picture, small.rows());
  resize_area<float, 1>(mask.rows(), coarse.rows());
  const double unit = side / step;
  Mask counted(coarse.width(), coarse.height()), product = counted;
  for (size_t i = 0; i < coarse.size(); ++i) {
    const float value = coarse.data()[i];
    counted.data()[i] = value > kCounts ? value : 0;
    product.data()[i] = counted.data()[i] * value;
  }
  counted = soften(counted, kReach * unit), product = soften(product, kReach * unit);
  const LabImage lab = soften<3>(to_lab(small).rows(), std::max(kGrain * unit, 0.7));
  std::vector<bool> shown, other;
  int count = 0;
  Mask& surety = product;
  for (size_t i = 0; i < coarse.size(); ++i) {
    surety.data()[i] /= std::max(counted.data()[i], 1e-3f);
    shown.push_back(coarse.data()[i] > kShows && surety.data()[i] > kShows);
    other.push_back(coarse.data()[i] < kNone);
    count += shown.back();
  }
  Mask said(coarse.width(), coarse.height());
  if (count >= kLeast) {
    said = said_by_colours(lab, shown, other);
    for (size_t i = 0; i < said.size(); ++i)
      said.data()[i] *= smoothstep(surety.data()[i], kOpenToColour[0], kOpenToColour[1]);
    said = soften(said, std::max(kSteady * unit, 0.7));
  }
  Mask trust = surety;
  for (size_t i = 0; i < trust.size(); ++i)
    trust.data()[i] = smoothstep(surety.data()[i], kUnsure[0], kUnsure[1]);
  Mask said_here(mask.width(), mask.height()), trust_here(mask.width(), mask.height());
  resize_linear<float, 1>(said.rows(), said_here.rows());
  resize_linear<float, 1>(trust.rows(), trust_here.rows());
  for (size_t i = 0; i < mask.size(); ++i)
    mask.data()[i] = weighed(mask.data()[i], said_here.data()[i]) * trust_here.data()[i];
}

}  // namespace palm_kits
