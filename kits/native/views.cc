#include "views.h"

#include <algorithm>
#include <cmath>

#include "boxes.h"
#include "planes.h"
#include "resize.h"

namespace palm_kits {
namespace {

// These are the numbers of palmkit.kits.portrait.views, which says what each means.
constexpr double kHairReach = 3.5, kHairDrop = 0.1, kRoom = 0.15, kWhole = 0.95, kLeast = 1.75;
constexpr double kAbove = 0.8, kBelow = 9, kBeside = 1.5, kFar = 0.3;
constexpr double kLeastPlaces = 16, kLeastShare = 0.25, kKept = 0.5;
constexpr double kHeadSide = 1.15, kHeadHeight = 0.4, kHeadRoom = 0.12, kNear = 0.4;
constexpr int kStep = 8;
constexpr size_t kMostHeads = 4;

// Start and end of a stretch of a mask in a picture, with a margin, at multiples of kStep. The
// mask's places show the picture from `begin` on, `full` pixels of it.
void stretch(int start, int length, int places, int begin, int full, int pixels, double room,
             int& low, int& high) {
  const double step = static_cast<double>(kStep) * places / full;
  const double first = start + static_cast<double>(begin) * places / full;
  low = std::max(static_cast<int>(std::floor((first - room * length) / step)) * kStep, 0);
  high = std::min(static_cast<int>(std::ceil((first + length + room * length) / step)) * kStep,
                  pixels);
}

// The start nearest to this one of what lies in 0..most as far as it can.
double moved_inside(double start, double length, double most) {
  return std::min(std::max(start, std::min(0.0, most - length)), std::max(0.0, most - length));
}

// What to look at for the head of a person of this width and height. middle: of the person's upper
// part, across; above: the person's upper end.
Part round_head(double middle, double above, double wide, double high, int width, int height) {
  const double whole = static_cast<double>(width) * height;
  if (wide * high > kNear * whole && high < 2 * wide)
    return {0, 0, static_cast<double>(width), static_cast<double>(height)};
  const double side = std::min(kHeadSide * std::max(wide, kHeadHeight * high),
                               static_cast<double>(std::max(width, height)));
  return {moved_inside(middle - side / 2, side, width),
          moved_inside(above - kHeadRoom * side, side, height), side, side};
}

// The middle across of the upper quarter of a part; box: round all of it.
double upper_middle(const Parts& parts, int part, const Box& box, int width) {
  double sum = 0;
  int count = 0;
  for (int x = box.left; x < box.right; ++x) {
    for (int y = box.top; y < box.top + (box.height() + 3) / 4; ++y) {
      if (parts.labels[static_cast<size_t>(y * width + x)] != part) continue;
      sum += x, ++count;
      break;
    }
  }
  return sum / count + 0.5;
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

template <class IsLarge>
View Halves::halved(Box box, IsLarge is_large) {
  View image = image_;
  size_t level = 0;
  while (is_large(box.width(), box.height()) && is_even(box, image)) {
    image = at(++level);
    box = {box.left / 2, box.top / 2, box.right / 2, box.bottom / 2};
  }
  return image.part(box.left, box.top, box.right, box.bottom);
}

Picture Halves::part(const Box& box, int side) {
  const double least = kLeast * side;
  return shrink(halved(box, [=](int wide, int high) { return std::min(wide, high) >= least; }),
                side);
}

Picture Halves::glance(const Box& box, int side) {
  View image = halved(box, [=](int wide, int high) { return std::max(wide, high) > 2 * side; });
  Picture smaller;
  while (std::max(image.width, image.height) > 2 * side) {
    if ((image.width | image.height) & 1) return resize(image, side, side);
    smaller = half<uint8_t, 3>(image);
    image = smaller;
  }
  Picture whole(side, side);
  resize_linear<uint8_t, 3>(image, whole.rows());
  return whole;
}

Span span(double low, double high, double scale, int side) {
  const int start = std::min(std::max(rounded(low * scale), 0), side - 1);
  return {start, std::min(std::max(rounded(high * scale), start + 1), side)};
}

std::optional<Box> box_round(MaskView coarse, const Box& seen, int width, int height,
                             double room) {
  const Box found = bounds(above(coarse, 0.5f));
  if (!found.width()) return std::nullopt;
  Box box{};
  stretch(found.left, found.width(), coarse.width, seen.left, seen.width(), width, room, box.left,
          box.right);
  stretch(found.top, found.height(), coarse.height, seen.top, seen.height(), height, room, box.top,
          box.bottom);
  return box;
}

std::optional<Box> box_of_people(MaskView coarse, int width, int height) {
  const Box whole{0, 0, width, height};
  const std::optional<Box> box = box_round(coarse, whole, width, height, kRoom);
  if (!box) return std::nullopt;
  const double area = static_cast<double>(box->width()) * box->height();
  return area >= kWhole * width * height ? whole : *box;
}

Part square_round(const Part& box, int width, int height) {
  const double longer = std::max(box[2], box[3]);
  const double side = std::min(kHairReach * longer, static_cast<double>(std::max(width, height)));
  const double left = box[0] + (box[2] - side) / 2;
  const double top = box[1] + (box[3] - side) / 2 + kHairDrop * longer;
  return {moved_inside(left, side, width), moved_inside(top, side, height), side, side};
}

bool far_only(const std::vector<Part>& views, const Part& picture) {
  return std::all_of(views.begin(), views.end(), [&](const Part& view) {
    return view[2] * view[3] < kFar * picture[2] * picture[3];
  });
}

std::vector<Head> heads_without_faces(MaskView people, const std::vector<Part>& faces, int width,
                                      int height) {
  const double down = static_cast<double>(people.height) / height;
  const double across = static_cast<double>(people.width) / width;
  Bytes inside = above(people, 0.5f);
  const std::vector<int> known = connected(inside).areas;
  int most = 0;
  for (size_t part = 1; part < known.size(); ++part) most = std::max(most, known[part]);
  const double least = std::max(kLeastPlaces, kLeastShare * most);
  const auto place = [](double x, int end) {
    return static_cast<int>(std::min(std::max(x, 0.0), static_cast<double>(end)));
  };
  for (const Part& face : faces) {
    const int top = place((face[1] - kAbove * face[3]) * down, people.height);
    const int bottom = place(std::ceil((face[1] + kBelow * face[3]) * down), people.height);
    const int left = place((face[0] - kBeside * face[2]) * across, people.width);
    const int right = place(std::ceil((face[0] + (1 + kBeside) * face[2]) * across), people.width);
    for (int y = top; y < bottom; ++y)
      for (int x = left; x < right; ++x) inside.row(y)[x] = 0;
  }
  // Narrow rests belong to people whose faces are known.
  inside = largest(smallest(inside, square(3)), square(3));
  const Parts parts = connected(inside);
  std::vector<double> areas(parts.areas.begin() + 1, parts.areas.end());
  std::vector<Head> found;
  for (size_t index : falling(areas)) {
    if (found.size() == kMostHeads || areas[index] < kKept * least) break;
    const int part = static_cast<int>(index) + 1;
    Bytes own(inside.width(), inside.height());
    for (size_t i = 0; i < own.size(); ++i) own.data()[i] = parts.labels[i] == part;
    const Box box = bounds(own);
    const double middle = upper_middle(parts, part, box, inside.width());
    found.push_back({round_head(middle / across, box.top / down, box.width() / across,
                                box.height() / down, width, height),
                     areas[index] >= least});
  }
  return found;
}

}  // namespace palm_kits
