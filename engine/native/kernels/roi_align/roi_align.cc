// Each region of interest (x1, y1, x2, y2) of image[index] as [height, width, channels] bins, each
// the mean or the maximum of points in it, themselves interpolated. He et al., Mask R-CNN, arXiv
// 1703.06870; as ONNX's RoiAlign.
#include <algorithm>
#include <cmath>

#include "kernels/indices.h"
#include "kernels/window.h"

namespace palm {
namespace {

constexpr Operands kOperands{"image rois batch_indices", "y"};
constexpr size_t kImage = kOperands.input("image"), kRois = kOperands.input("rois"),
                 kBatchIndices = kOperands.input("batch_indices");

class RoiAlign : public Step {
 public:
  explicit RoiAlign(const Node& node)
      : indices_(node.any_in(kBatchIndices)),
        scale_(node.attrs.number("spatial_scale", 1.f)),
        offset_(node.attrs.number("offset", 0.5f)),
        ratio_(node.attrs.size("sampling_ratio")) {
    const std::string mode = node.attrs.text("mode");
    max_ = mode == "max";
    if (!max_ && mode != "avg") fail(Fault::kModel, "attribute mode: %.40s", mode.c_str());
    const Tensor &x = image(node.in(kImage)), &rois = node.in(kRois), &y = image(node.out());
    images_ = x.shape[0], height_ = x.shape[1], width_ = x.shape[2], channels_ = x.shape[3];
    regions_ = y.shape[0], out_height_ = y.shape[1], out_width_ = y.shape[2];
    if (y.shape[3] != channels_ || rois.count != checked_product(4, regions_) ||
        node.any_in(kBatchIndices).count != regions_ || ratio_ > kMostSamples || height_ > kMostSide ||
        width_ > kMostSide || (y.count && x.count == 0)) {
      fail(Fault::kModel, "%s of %s into %s", rois.text().c_str(), x.text().c_str(),
           y.text().c_str());
    }
  }

  void run(const Buffers& b) const override {
    for (size_t r = 0; r < regions_; ++r) indices_.at(b.inputs[kBatchIndices], r, images_);
    b.pool->parallel(regions_ * out_height_,
                     grain_of(out_width_ * channels_ * kWorkOfTouching * 16),
                     [&](size_t begin, size_t end, int) {
                       for (size_t i = begin; i < end; ++i)
                         row(b, i / out_height_, i % out_height_);
                     });
  }

 private:
  static constexpr size_t kMostSamples = 1024, kMostSide = 1 << 24;

  // How many points a bin of that size has; bounded, whatever the region claims.
  size_t samples(float bin) const {
    if (ratio_) return ratio_;
    const float n = std::ceil(bin);
    return n >= 1 ? static_cast<size_t>(std::min(n, static_cast<float>(kMostSamples))) : 1;
  }

  struct Points {
    size_t begin, end;
  };

  // Which of n points lie from -1 to `limit`, so that a region may be much larger than the image.
  // In mode max all count.
  template <class At>
  Points inside(At at, size_t n, bool falling, float limit) const {
    constexpr size_t kFew = 16;
    if (max_ || n <= kFew) return {0, n};
    const auto first = [&](auto reached) {
      size_t begin = 0, end = n;
      while (begin < end) {
        const size_t middle = (begin + end) / 2;
        if (reached(at(middle))) end = middle;
        else begin = middle + 1;
      }
      return begin;
    };
    if (falling)
      return {first([=](float v) { return v <= limit; }), first([](float v) { return v < -1; })};
    return {first([](float v) { return v >= -1; }), first([=](float v) { return v > limit; })};
  }

  void row(const Buffers& b, size_t region, size_t bin_y) const {
    const float* const roi = b.in(kRois) + region * 4;
    const size_t index = indices_.at(b.inputs[kBatchIndices], region, images_);
    const float* const x = b.in(kImage) + index * height_ * width_ * channels_;
    const float left = roi[0] * scale_ - offset_, top = roi[1] * scale_ - offset_;
    float width = roi[2] * scale_ - offset_ - left, height = roi[3] * scale_ - offset_ - top;
    if (offset_ == 0) width = std::max(width, 1.f), height = std::max(height, 1.f);
    const float bin_width = width / static_cast<float>(out_width_);
    const float bin_height = height / static_cast<float>(out_height_);
    const size_t ny = samples(bin_height), nx = samples(bin_width);
    const auto at_y = [&](size_t i) {
      return top + (static_cast<float>(bin_y) + fraction(i, ny)) * bin_height;
    };
    const Points along_y = inside(at_y, ny, bin_height < 0, static_cast<float>(height_));
    for (size_t bin_x = 0; bin_x < out_width_; ++bin_x) {
      constexpr size_t kMany = 1024;
      if (ny * nx > kMany) b.pool->look();
      const auto at_x = [&](size_t i) {
        return left + (static_cast<float>(bin_x) + fraction(i, nx)) * bin_width;
      };
      const Points along_x = inside(at_x, nx, bin_width < 0, static_cast<float>(width_));
      float* const y = b.out() + ((region * out_height_ + bin_y) * out_width_ + bin_x) * channels_;
      std::fill_n(y, channels_, 0.f);
      for (size_t iy = along_y.begin; iy < along_y.end; ++iy)
        for (size_t ix = along_x.begin; ix < along_x.end; ++ix)
          sample(x, at_y(iy), at_x(ix), iy + ix == 0, y);
      const float by = max_ ? 1.f : 1.f / static_cast<float>(ny * nx);
      for (size_t c = 0; c < channels_; ++c) y[c] *= by;
    }
  }

  static float fraction(size_t i, size_t n) {
    return (static_cast<float>(i) + 0.5f) / static_cast<float>(n);
  }

  // Adds one point, or in mode max takes the greatest of its four weighted pixels.
  void sample(const float* x, float py, float px, bool first, float* y) const {
    const float h = static_cast<float>(height_), w = static_cast<float>(width_);
    const bool inside = py >= -1 && py <= h && px >= -1 && px <= w;
    if (!inside && !max_) return;
    const float cy = inside ? std::min(std::max(py, 0.f), h - 1) : 0;
    const float cx = inside ? std::min(std::max(px, 0.f), w - 1) : 0;
    const size_t top = static_cast<size_t>(cy), left = static_cast<size_t>(cx);
    const size_t bottom = std::min(top + 1, height_ - 1), right = std::min(left + 1, width_ - 1);
    const float fy = cy - static_cast<float>(top), fx = cx - static_cast<float>(left);
    const float on = inside ? 1.f : 0.f;
    const float weights[4] = {on * (1 - fy) * (1 - fx), on * (1 - fy) * fx, on * fy * (1 - fx),
                              on * fy * fx};
    const float* const from[4] = {
        x + (top * width_ + left) * channels_, x + (top * width_ + right) * channels_,
        x + (bottom * width_ + left) * channels_, x + (bottom * width_ + right) * channels_};
    for (size_t c = 0; c < channels_; ++c) {
      const float v[4] = {from[0][c] * weights[0], from[1][c] * weights[1], from[2][c] * weights[2],
                          from[3][c] * weights[3]};
      if (!max_) {
        y[c] += v[0] + v[1] + v[2] + v[3];
      } else {
        const float most = std::max(std::max(v[0], v[1]), std::max(v[2], v[3]));
        y[c] = first ? most : std::max(y[c], most);
      }
    }
  }

  Indices indices_;
  float scale_, offset_;
  size_t ratio_;
  bool max_;
  size_t images_, height_, width_, channels_, regions_, out_height_, out_width_;
};

}  // namespace

PALM_OPERANDS(roi_align, kOperands)
StepPtr make_roi_align(const Node& node) { return std::make_unique<RoiAlign>(node); }

}  // namespace palm
