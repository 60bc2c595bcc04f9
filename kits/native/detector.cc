#include "detector.h"

#include <algorithm>
#include <cmath>

#include "calls.h"
#include "resize.h"

namespace palm_kits {
namespace {

constexpr double kTileOverlap = 0.25;
constexpr int kRow = 4;  // parts that are seen at once lie in rows of so many

// The next multiple of kSideMultiple.
int padded(double side) {
  return std::max((rounded(side) + kSideMultiple - 1) / kSideMultiple, 1) * kSideMultiple;
}

// Starts of squares that cover a length, each overlapping the next.
std::vector<int> starts(int low, int length, int side) {
  if (length <= side) return {low};
  const int count = static_cast<int>(std::ceil((length - side) / (side * (1 - kTileOverlap)))) + 1;
  std::vector<int> all;
  for (int i = 0; i < count; ++i)
    all.push_back(low + rounded(static_cast<double>(i) * (length - side) / (count - 1)));
  return all;
}

// Maps candidates of a placed part to the picture's pixels.
void place(const palm_kits_placement& placement, Candidates& found) {
  for (Corners<float>& each : found.boxes) to_picture(placement, each.data(), 2);
  to_picture(placement, found.points.data(), found.points.size() / 2);
}

}  // namespace

Fitted letterbox(View image, const Box& part, int width, int height, double max_scale) {
  const View crop = part_of(image, part);
  const double scale = std::min(
      std::min(static_cast<double>(height) / crop.height, static_cast<double>(width) / crop.width),
      max_scale);
  const int high = std::min(std::max(rounded(crop.height * scale), 1), height);
  const int wide = std::min(std::max(rounded(crop.width * scale), 1), width);
  Fitted fitted{Picture(width, height), {}};
  const Picture shown = resize(crop, wide, high);
  for (int y = 0; y < high; ++y) std::copy_n(shown.row(y), 3 * wide, fitted.canvas.row(y));
  // The scale of each axis after rounding, so that mapping back is exact.
  const double x = static_cast<double>(wide) / crop.width;
  const double y = static_cast<double>(high) / crop.height;
  fitted.placement = {x, y, -part.left * x, -part.top * y};
  return fitted;
}

void to_picture(const palm_kits_placement& at, float* points, size_t count) {
  const double whole = at.scale_x * at.scale_y, x = at.scale_y / whole, y = at.scale_x / whole;
  for (size_t i = 0; i < count; ++i, points += 2) {
    points[0] = static_cast<float>((points[0] - at.shift_x) * x);
    points[1] = static_cast<float>((points[1] - at.shift_y) * y);
  }
}

Detector::Detector(const palm_kits_network* network, size_t keypoints, double max_enlarged)
    : network_(network, "detector"), keypoints_(keypoints), max_enlarged_(max_enlarged) {
  for (const palm_kits_size& size : network_.sizes()) {
    if (size.width % kSideMultiple || size.height % kSideMultiple)
      refuse("detector: expected sizes of multiples of %d, got %dx%d", kSideMultiple, size.width,
             size.height);
  }
}

palm_kits_size Detector::runnable(palm_kits_size wanted, int width, int height,
                                  double scale) const {
  const palm_kits_size* best = nullptr;
  double most = 0;
  for (const palm_kits_size& each : network_.sizes()) {
    if (each.width == wanted.width && each.height == wanted.height) return wanted;
    const double shown = std::min(std::min(static_cast<double>(each.width) / width,
                                           static_cast<double>(each.height) / height),
                                  scale);
    const bool is_smaller =
        best && int64_t{each.width} * each.height < int64_t{best->width} * best->height;
    if (!best || shown > most || (shown == most && is_smaller)) best = &each, most = shown;
  }
  return best ? *best : wanted;
}

Candidates Detector::search(View image, const Box& area, int size, float min_score,
                            int tile) const {
  const Part whole = part_of_box(area);
  const int longer = std::max(area.width(), area.height());
  Candidates found = infer_whole(image, area, size, min_score);
  if (tile && tile < longer) {
    const int side = padded(tile);
    for (int top : starts(area.top, area.height(), tile)) {
      for (int left : starts(area.left, area.width(), tile)) {
        const Part part{static_cast<double>(left), static_cast<double>(top),
                        static_cast<double>(std::min(tile, area.width())),
                        static_cast<double>(std::min(tile, area.height()))};
        found.add(uncut(infer(image, part, {side, side}, min_score, 1), part, whole));
      }
    }
  }
  return merged(found);
}

Candidates Detector::infer(View image, const Part& part, palm_kits_size wanted, float min_score,
                           double max_scale) const {
  const palm_kits_part given{part[0], part[1], part[2], part[3]};
  const Box box = clipped(&given, image);
  const palm_kits_size input = runnable(wanted, box.width(), box.height(), max_scale);
  const Fitted fitted = letterbox(image, box, input.width, input.height, max_scale);
  Candidates found = decoded(fitted.canvas, min_score);
  place(fitted.placement, found);
  return found;
}

Candidates Detector::infer_whole(View image, const Box& area, int size, float min_score) const {
  const double scale =
      std::min(static_cast<double>(size) / std::max(area.width(), area.height()), max_enlarged_);
  const palm_kits_size input{padded(area.width() * scale), padded(area.height() * scale)};
  return infer(image, part_of_box(area), input, min_score, scale);
}

Candidates Detector::infer_parts(View image, const Box& area, const std::vector<Part>& parts,
                                 int side, float min_score) const {
  const Sheet sheet = rows_of(parts, side, kRow);
  if (holds(sheet.size)) return infer_sheet(image, area, sheet, min_score, max_enlarged_);
  Candidates found{keypoints_, {}, {}, {}};
  for (const Part& part : parts)
    found.add(
        uncut(infer(image, part, {side, side}, min_score, max_enlarged_), part, part_of_box(area)));
  return found;
}

Candidates Detector::infer_sheet(View image, const Box& area, const Sheet& sheet, float min_score,
                                 double max_scale) const {
  const palm_kits_size size = holding(sheet.size).value_or(sheet.size);
  Picture canvas(size.width, size.height);
  std::vector<palm_kits_placement> placements;
  for (size_t i = 0; i < sheet.parts.size(); ++i) {
    const Part& at = sheet.parts[i];
    const palm_kits_part part{at[0], at[1], at[2], at[3]};
    const Box& cell = sheet.cells[i];
    const Fitted fitted =
        letterbox(image, clipped(&part, image), cell.width(), cell.height(), max_scale);
    placements.push_back(fitted.placement);
    for (int y = 0; y < cell.height(); ++y)
      std::copy_n(fitted.canvas.row(y), 3 * cell.width(), canvas.row(cell.top + y) + 3 * cell.left);
  }
  const Candidates seen = decoded(canvas, min_score);
  Candidates found{keypoints_, {}, {}, {}};
  for (size_t i = 0; i < sheet.parts.size(); ++i) {
    const auto left = static_cast<float>(sheet.cells[i].left);
    const auto top = static_cast<float>(sheet.cells[i].top);
    const auto right = static_cast<float>(sheet.cells[i].right);
    const auto bottom = static_cast<float>(sheet.cells[i].bottom);
    Candidates own = seen.take([&](size_t row) {
      const Corners<float>& box = seen.boxes[row];
      const float x = (box[0] + box[2]) / 2, y = (box[1] + box[3]) / 2;
      return x >= left && x < right && y >= top && y < bottom;
    });
    for (Corners<float>& box : own.boxes)
      box = {box[0] - left, box[1] - top, box[2] - left, box[3] - top};
    for (size_t k = 0; k < own.points.size(); k += 2)
      own.points[k] -= left, own.points[k + 1] -= top;
    place(placements[i], own);
    found.add(uncut(own, sheet.parts[i], part_of_box(area)));
  }
  return found;
}

std::optional<palm_kits_size> Detector::holding(palm_kits_size wanted) const {
  if (network_.sizes().empty()) return wanted;
  std::optional<palm_kits_size> best;
  for (const palm_kits_size& each : network_.sizes()) {
    if (each.width < wanted.width || each.height < wanted.height) continue;
    const int64_t pixels = int64_t{each.width} * each.height;
    if (!best || pixels < int64_t{best->width} * best->height) best = each;
  }
  return best;
}

Candidates Detector::decoded(View canvas, float min_score) const {
  static constexpr const char* kNames[][3] = {{"score_8", "box_8", "points_8"},
                                              {"score_16", "box_16", "points_16"},
                                              {"score_32", "box_32", "points_32"}};
  std::vector<Output> outputs;
  for (size_t i = 0; i < 3; ++i) {
    const int64_t height = canvas.height / kStrides[i], width = canvas.width / kStrides[i];
    const auto points = static_cast<int64_t>(2 * keypoints_);
    outputs.emplace_back(kNames[i][0], std::initializer_list<int64_t>{1, height, width, 1});
    outputs.emplace_back(kNames[i][1], std::initializer_list<int64_t>{1, height, width, 4});
    outputs.emplace_back(kNames[i][2], std::initializer_list<int64_t>{1, height, width, points});
  }
  network_.run(canvas, outputs);
  Candidates found{keypoints_, {}, {}, {}};
  for (size_t i = 0; i < 3; ++i) {
    const Output& scores = outputs[3 * i];
    decode({kStrides[i], static_cast<int>(scores.dims[2]), static_cast<int>(scores.dims[1]),
            scores.data.data(), outputs[3 * i + 1].data.data(), outputs[3 * i + 2].data.data()},
           min_score, found);
  }
  return found;
}

Candidates Detector::uncut(const Candidates& found, const Part& part, const Part& area) {
  return found.take([&](size_t row) {
    for (size_t i = 0; i < 2; ++i) {
      const double inner = part[i] + 0.01 * part[i + 2], outer = part[i] + 0.99 * part[i + 2];
      if (part[i] > area[i] && found.boxes[row][i] < inner) return false;
      if (part[i] + part[i + 2] < area[i] + area[i + 2] && found.boxes[row][i + 2] > outer)
        return false;
    }
    return true;
  });
}

}  // namespace palm_kits
