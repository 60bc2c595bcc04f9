#include "segmenter.h"

#include <algorithm>
#include <cmath>

#include "refine.h"
#include "resize.h"
#include "views.h"
#include "warp.h"

namespace palm_kits {
namespace {

constexpr double kTurn = 20;  // of other looks, in degrees
// The share of a view's last row from which on hair hangs down beyond it, and how much larger the
// view is that shows what is below.
constexpr double kHangs = 0.1, kFurther = 2;

Picture mirrored(View x) {
  Picture y(x.width, x.height);
  for (int row = 0; row < x.height; ++row)
    for (int i = 0; i < x.width; ++i)
      std::copy_n(x.row(row) + 3 * (x.width - 1 - i), 3, y.row(row) + 3 * i);
  return y;
}

Picture grey(View x) {
  Picture y(x.width, x.height);
  for (int row = 0; row < x.height; ++row) {
    const uint8_t* rgb = x.row(row);
    for (int i = 0; i < x.width; ++i, rgb += 3) {
      const int value = (rgb[0] * 9798 + rgb[1] * 19235 + rgb[2] * 3735 + (1 << 14)) >> 15;
      std::fill_n(y.row(row) + 3 * i, 3, static_cast<uint8_t>(value));
    }
  }
  return y;
}

// A turn round the middle of a square.
Matrix turn(double degrees, int side) {
  const double angle = degrees * std::acos(-1.0) / 180, middle = (side - 1) / 2.0;
  const double a = std::cos(angle), b = std::sin(angle);
  return {a, b, (1 - a) * middle - b * middle, -b, a, b * middle + (1 - a) * middle};
}

template <class T, int C>
Dense<T, C> turned(const Dense<T, C>& x, double degrees) {
  Dense<T, C> y(x.width(), x.height());
  warp_alone<T, C>(x.rows(), inverse(turn(degrees, x.width())), y.rows());
  return y;
}

}  // namespace

void fill(Rows<float, 1> mask, float value) {
  for (int row = 0; row < mask.height; ++row) std::fill_n(mask.row(row), mask.width, value);
}

Mask probabilities(const std::vector<float>& values, int side) {
  Mask mask(side, side);
  for (size_t i = 0; i < mask.size(); ++i)
    mask.data()[i] = values[i] > 0.f ? std::min(values[i], 1.f) : 0.f;
  return mask;
}

Mask Segmenter::infer(View view) const {
  std::vector<Output> outputs{{"mask", {1, side_, side_, 1}}};
  network_.run(view, outputs);
  return probabilities(outputs[0].data, side_);
}

void Segmenter::enlarge(View image, MaskView coarse, View small, Rows<float, 1> to) const {
  if (options_.is_refined) refine(image, coarse, small, to);
  else resize_linear<float, 1>(coarse, to);
}

std::optional<double> Segmenter::tick(const palm_kits_frame* frame) {
  motion_of(frame, options_);
  const double timestamp_ms = timestamp_of(frame);
  if (!options_.is_video) return std::nullopt;
  return clock_.tick(timestamp_ms);
}

void Hair::around(View image, const std::vector<Face>& faces, const Box& area,
                  std::optional<double> time_s, Way way, Rows<float, 1> mask) {
  look(image, round_faces(image, faces), area, time_s, way, mask);
}

Hair::Looks Hair::round_faces(View image, const std::vector<Face>& faces) {
  Looks looks;
  for (const Face& face : faces) {
    const Part view = square_round(face.box, image.width, image.height);
    if (view[2] > 0) looks.push_back({{Whose::face, face.id}, view});
  }
  return looks;
}

void Hair::look(View image, Looks looks, const Box& area, std::optional<double> time_s, Way way,
                Rows<float, 1> mask) {
  fill(mask, 0);
  if (looks.empty()) looks.push_back({{Whose::area, 0}, part_of_box(area)});
  std::map<Who, Steady> seen;
  for (const auto& [who, view] : looks) {
    const auto known = steady_.find(who);
    Steady& steady = known == steady_.end() ? seen[who] : seen[who] = known->second;
    add(mask, image, area, view, steady, time_s, way);
  }
  steady_ = std::move(seen);
}

Mask Hair::otherwise(View image, const Part& face, const Box& area, const Box& part) const {
  Mask mask(image.width, image.height);
  const auto cut = [&] {
    return copied<float, 1>(MaskView(mask).part(part.left, part.top, part.right, part.bottom));
  };
  const std::optional<Seen> found =
      seen(image, area, square_round(face, image.width, image.height));
  if (!found) return cut();
  Mask sum = infer(grey(found->canvas)), looks(side_, side_, 1.f);
  for (double degrees : {kTurn, -kTurn}) {
    const Mask there = infer(turned(found->canvas, degrees)), back = turned(there, -degrees);
    // The corners are out of a turned look.
    const Mask inside = turned(turned(Mask(side_, side_, 1.f), degrees), -degrees);
    for (size_t i = 0; i < sum.size(); ++i)
      sum.data()[i] += back.data()[i], looks.data()[i] += inside.data()[i];
  }
  for (size_t i = 0; i < sum.size(); ++i) sum.data()[i] /= looks.data()[i];
  const Box& in = found->inside;
  resize_linear<float, 1>(
      copied<float, 1>(MaskView(sum).part(in.left, in.top, in.right, in.bottom)),
      part_of(mask.rows(), found->box));
  return cut();
}

std::optional<Hair::Seen> Hair::seen(View image, const Box& area, const Part& view) const {
  Box box{std::max(rounded(view[0]), area.left), std::max(rounded(view[1]), area.top),
          std::min(rounded(view[0] + view[2]), area.right),
          std::min(rounded(view[1] + view[3]), area.bottom)};
  if (box.left >= box.right || box.top >= box.bottom) return std::nullopt;
  if (std::min(box.width(), box.height()) >= 2 * side_) {
    // Halving exactly is quick, and the border's last pixels show nothing.
    box.right -= box.width() % 4, box.bottom -= box.height() % 4;
  }
  // Where the part that is in the picture lies in the network's input.
  const Span across = span(box.left - view[0], box.right - view[0], side_ / view[2], side_);
  const Span down = span(box.top - view[1], box.bottom - view[1], side_ / view[3], side_);
  const Box inside{across.low, down.low, across.high, down.high};
  Seen found{box, inside, resize(palm_kits::part_of(image, box), inside.width(), inside.height()),
             Picture(side_, side_)};
  for (int y = 0; y < found.small.height(); ++y)
    std::copy_n(found.small.row(y), 3 * found.small.width(),
                found.canvas.row(inside.top + y) + 3 * inside.left);
  return found;
}

void Hair::add(Rows<float, 1> mask, View image, const Box& area, const Part& view, Steady& steady,
               std::optional<double> time_s, Way way) const {
  const std::optional<Seen> found = seen(image, area, view);
  if (!found) return;
  Mask coarse = infer(found->canvas);
  if (way.twice) {
    const Mask again = infer(mirrored(found->canvas));
    for (int y = 0; y < side_; ++y)
      for (int x = 0; x < side_; ++x)
        coarse.row(y)[x] = std::min(coarse.row(y)[x], again.row(y)[side_ - 1 - x]);
  }
  if (time_s && options_.is_smooth) steady.update(coarse, found->canvas, view, *time_s);
  const Box& in = found->inside;
  Mask own = copied<float, 1>(MaskView(coarse).part(in.left, in.top, in.right, in.bottom));
  if (way.least > 0 && !keep_large_parts(own, way.least)) return;
  const View crop = palm_kits::part_of(image, found->box);
  Mask large(crop.width, crop.height);
  if (way.fine) enlarge(crop, own, found->small, large.rows());
  else resize_linear<float, 1>(own, large.rows());
  const Rows<float, 1> whole = part_of(mask, found->box);
  for (int y = 0; y < whole.height; ++y)
    for (int x = 0; x < whole.width; ++x)
      whole.row(y)[x] = std::max(whole.row(y)[x], large.row(y)[x]);
  if (time_s || way.least > 0 || rounded(view[1] + view[3]) >= area.bottom) return;
  const float* const last = large.row(large.height() - 1);
  const auto hairs = std::count_if(last, last + large.width(), [](float v) { return v > 0.5f; });
  if (static_cast<double>(hairs) / large.width() < kHangs) return;
  // It hangs down beyond the view. The larger one is seen less closely: only what is below counts.
  Mask longer(image.width, image.height);
  const Part larger{view[0] + view[2] * (1 - kFurther) / 2, view[1], view[2] * kFurther,
                    view[3] * kFurther};
  add(longer.rows(), image, area, larger, steady, time_s, way);
  for (int y = found->box.bottom; y < image.height; ++y)
    for (int x = 0; x < image.width; ++x)
      mask.row(y)[x] = std::max(mask.row(y)[x], longer.row(y)[x]);
}

}  // namespace palm_kits
