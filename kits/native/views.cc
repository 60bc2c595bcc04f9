#include "views.h"

#include <algorithm>
#include <cmath>

#include "planes.h"
#include "resize.h"

namespace palm_kits {
namespace {

// These are the numbers of palmkit.kits.portrait.views, which says what each means.
constexpr double kHairReach = 3.5, kHairDrop = 0.1, kRoom = 0.15, kWhole = 0.95, kLeast = 1.75;
constexpr double kCloser = 0.7;
constexpr int kStep = 8;

// Start and end of a stretch of a mask in a picture, with a margin, at multiples of kStep.
void stretch(int start, int length, int places, int pixels, int& low, int& high) {
  const double room = kRoom * length, step = static_cast<double>(kStep) * places / pixels;
  low = std::max(static_cast<int>(std::floor((start - room) / step)) * kStep, 0);
  high = std::min(static_cast<int>(std::ceil((start + length + room) / step)) * kStep, pixels);
}

// The start nearest to this one of what lies in 0..most as far as it can.
double moved_inside(double start, double length, double most) {
  return std::min(std::max(start, std::min(0.0, most - length)), std::max(0.0, most - length));
}

bool is_even(const Box& box, View image) {
  return !((box.left | box.top | box.right | box.bottom | image.width | image.height) & 1);
}

}  // namespace

View Halves::at(size_t level) {
  if (!level) return image_;
  while (smaller_.size() < level)
    smaller_.push_back(half<uint8_t, 3>(smaller_.empty() ? image_ : View(smaller_.back())));
  return smaller_[level - 1];
}

Picture Halves::part(Box box, int side) {
  View image = image_;
  size_t level = 0;
  while (std::min(box.width(), box.height()) >= kLeast * side && is_even(box, image)) {
    image = at(++level);
    box = {box.left / 2, box.top / 2, box.right / 2, box.bottom / 2};
  }
  return shrink(image.part(box.left, box.top, box.right, box.bottom), side);
}

Picture Halves::glance(int side) {
  View image = image_;
  size_t level = 0;
  while (std::max(image.width, image.height) > 2 * side) {
    if ((image.width | image.height) & 1) return resize(image, side, side);
    image = at(++level);
  }
  Picture whole(side, side);
  resize_linear<uint8_t, 3>(image, whole.rows());
  return whole;
}

std::optional<Box> box_of_people(MaskView coarse, int width, int height) {
  const Box found = bounds(above(coarse, 0.5f));
  if (!found.width()) return std::nullopt;
  Box box{};
  stretch(found.left, found.width(), coarse.width, width, box.left, box.right);
  stretch(found.top, found.height(), coarse.height, height, box.top, box.bottom);
  const double area = static_cast<double>(box.width()) * box.height();
  if (area >= kWhole * width * height) return Box{0, 0, width, height};
  return box;
}

std::optional<Box> closer(MaskView coarse, const Box& seen) {
  const std::optional<Box> box = box_of_people(coarse, seen.width(), seen.height());
  if (!box) return std::nullopt;
  const double area = static_cast<double>(box->width()) * box->height();
  if (area > kCloser * seen.width() * seen.height()) return std::nullopt;
  return Box{seen.left + box->left, seen.top + box->top, seen.left + box->right,
             seen.top + box->bottom};
}

Part square_round(const Part& box, int width, int height) {
  const double longer = std::max(box[2], box[3]);
  const double side = std::min(kHairReach * longer, static_cast<double>(std::max(width, height)));
  const double left = box[0] + (box[2] - side) / 2;
  const double top = box[1] + (box[3] - side) / 2 + kHairDrop * longer;
  return {moved_inside(left, side, width), moved_inside(top, side, height), side, side};
}

}  // namespace palm_kits
