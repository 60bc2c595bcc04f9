// y[n][i][j] = x[n] at the point grid[n][i][j] = (x, y), both -1..1 from edge to edge; modes
// "linear" and "nearest" (halves to even), padding_mode "zeros", "border" or "reflection".
#include <algorithm>
#include <cmath>

#include "kernels/window.h"

namespace palm {
namespace {

constexpr Operands kOperands{"image grid", "y"};
constexpr size_t kImage = kOperands.input("image"), kGrid = kOperands.input("grid");

enum class Padding { kZeros, kBorder, kReflection };

Padding padding_of(const std::string& name) {
  if (name == "zeros") return Padding::kZeros;
  if (name == "border") return Padding::kBorder;
  if (name == "reflection") return Padding::kReflection;
  fail(Fault::kModel, "attribute padding_mode: %.40s", name.c_str());
}

class GridSample : public Step {
 public:
  explicit GridSample(const Node& node)
      : padding_(padding_of(node.attrs.text("padding_mode", "zeros"))),
        align_corners_(node.attrs.integer("align_corners", 0) != 0) {
    const std::string mode = node.attrs.text("mode");
    linear_ = mode == "linear";
    if (!linear_ && mode != "nearest") fail(Fault::kModel, "attribute mode: %.40s", mode.c_str());
    const Tensor &x = image(node.in(kImage)), &grid = image(node.in(kGrid)), &y = image(node.out());
    height_ = x.shape[1], width_ = x.shape[2], channels_ = x.shape[3];
    points_ = checked_product(y.shape[1], y.shape[2]), images_ = y.shape[0];
    if (x.shape[0] != images_ || y.shape[3] != channels_ || grid.shape[3] != 2 ||
        grid.shape[0] != images_ || grid.shape[1] != y.shape[1] || grid.shape[2] != y.shape[2] ||
        (y.count && x.count == 0) || height_ > kMost || width_ > kMost) {
      fail(Fault::kModel, "%s at %s into %s", x.text().c_str(), grid.text().c_str(),
           y.text().c_str());
    }
  }

  void run(const Buffers& b) const override {
    b.pool->parallel(
        images_ * points_, grain_of(channels_ * kWorkOfTouching * 4),
        [&](size_t begin, size_t end, int) {
          for (size_t i = begin; i < end; ++i) {
            const float* const point = b.in(kGrid) + 2 * i;
            const float* const x = b.in(kImage) + i / points_ * height_ * width_ * channels_;
            sample(x, place(point[1], height_), place(point[0], width_), b.out() + i * channels_);
          }
        });
  }

 private:
  static constexpr size_t kMost = 1 << 24;

  // Where a point lies along an axis, in pixels.
  float place(float at, size_t size) const {
    const float n = static_cast<float>(size);
    float p = align_corners_ ? (at + 1) / 2 * (n - 1) : ((at + 1) * n - 1) / 2;
    if (!linear_) p = std::nearbyint(p);
    if (padding_ == Padding::kBorder) p = std::min(std::max(p, 0.f), n - 1);
    if (padding_ == Padding::kReflection) {
      const float low = align_corners_ ? 0.f : -0.5f, span = align_corners_ ? n - 1 : n;
      if (span <= 0) return 0;
      float over = std::fmod(std::fabs(p - low), 2 * span);
      if (over > span) over = 2 * span - over;
      p = std::min(std::max(over + low, 0.f), n - 1);
      if (!linear_) p = std::nearbyint(p);
    }
    // Also what is no number is far outside.
    return p >= -2 && p <= n + 1 ? p : -2;
  }

  void sample(const float* x, float py, float px, float* y) const {
    std::fill_n(y, channels_, 0.f);
    const float top = std::floor(py), left = std::floor(px);
    const float fy = py - top, fx = px - left;
    add(x, top, left, (1 - fy) * (1 - fx), y);
    if (!linear_) return;
    add(x, top, left + 1, (1 - fy) * fx, y);
    add(x, top + 1, left, fy * (1 - fx), y);
    add(x, top + 1, left + 1, fy * fx, y);
  }

  void add(const float* x, float row, float column, float weight, float* y) const {
    const bool inside = row >= 0 && row < static_cast<float>(height_) && column >= 0 &&
                        column < static_cast<float>(width_);
    if (!inside || weight == 0) return;
    const size_t at = static_cast<size_t>(row) * width_ + static_cast<size_t>(column);
    const float* const from = x + at * channels_;
    for (size_t c = 0; c < channels_; ++c) y[c] += from[c] * weight;
  }

  Padding padding_;
  bool align_corners_, linear_;
  size_t images_, points_, height_, width_, channels_;
};

}  // namespace

PALM_OPERANDS(grid_sample, kOperands)
StepPtr make_grid_sample(const Node& node) { return std::make_unique<GridSample>(node); }

}  // namespace palm
