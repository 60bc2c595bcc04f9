#include "face_search.h"

#include <algorithm>
#include <cmath>

namespace palm_kits {
namespace {

// These are the numbers of palmkit.kits.face.search, which says what each means.
constexpr int kGlance = 160, kFirst = 320, kLast = 640, kCloserSide = 128;
constexpr size_t kKeypoints = 5, kMostCloser = 8, kCrowdProbes = 4;
constexpr double kMaxEnlarged = 2.0, kQuickFace = 24, kTinyFace = 12, kDoubt = 0.35;
constexpr double kTinyDoubt = 1.0 / 12, kReach = 3, kConfirmed = 1.0 / 8;
constexpr double kCrowdScores[] = {0.65, 0.45};

float longer_side(const Corners<float>& box) { return std::max(box[2] - box[0], box[3] - box[1]); }

bool scores(const Candidates& found, size_t row, double least) {
  return found.scores[row] >= static_cast<float>(least);
}

// Whether a face, seen at this scale, is so small that a closer pass is needed.
bool is_in_doubt(const Candidates& found, size_t row, double scale, double min_score) {
  const float side = longer_side(found.boxes[row]) * static_cast<float>(scale);
  const double least = (side < static_cast<float>(kTinyFace) ? kTinyDoubt : kDoubt) * min_score;
  return side < static_cast<float>(kQuickFace) && found.scores[row] >= least;
}

Candidates without_doubt(const Candidates& found, double scale, double min_score) {
  return found.take([&](size_t row) { return !is_in_doubt(found, row, scale, min_score); });
}

double confirmed(double min_score) { return min_score + (1 - min_score) * kConfirmed; }

// Whether a part shows a box with half its size round it, not much below `size`.
bool shows(const Part& part, double size, const Corners<float>& box, const Box& area) {
  const double own =
      std::max(static_cast<double>(box[2]) - box[0], static_cast<double>(box[3]) - box[1]);
  const double low[] = {static_cast<double>(area.left), static_cast<double>(area.top)};
  const double high[] = {static_cast<double>(area.right), static_cast<double>(area.bottom)};
  if (own < size / 2) return false;
  for (size_t i = 0; i < 2; ++i) {
    if (std::max(box[i] - own / 2, low[i]) < part[i]) return false;
    if (std::min(box[i + 2] + own / 2, high[i]) > part[i] + part[i + 2]) return false;
  }
  return true;
}

// Squares inside the area, each round the first box that no earlier one shows; `most` at most.
std::vector<Part> surroundings(const Candidates& found, const Box& area, size_t most) {
  std::vector<size_t> waiting = falling({found.scores.begin(), found.scores.end()});
  std::vector<Part> parts;
  while (!waiting.empty() && parts.size() < most) {
    const Corners<float>& box = found.boxes[waiting[0]];
    const double size =
        std::max(static_cast<double>(box[2]) - box[0], static_cast<double>(box[3]) - box[1]);
    const double side = std::ceil(std::max(size * kReach, kCloserSide / kMaxEnlarged));
    Part part;
    for (size_t i = 0; i < 2; ++i) {
      const double low = i ? area.top : area.left, whole = i ? area.height() : area.width();
      const double length = std::min(side, whole);
      const double middle = (static_cast<double>(box[i]) + box[i + 2]) / 2;
      part[i] = std::min(std::max(std::nearbyint(middle - length / 2), low), low + whole - length);
      part[i + 2] = length;
    }
    parts.push_back(part);
    std::vector<size_t> left;
    for (size_t k = 1; k < waiting.size(); ++k)
      if (!shows(part, size, found.boxes[waiting[k]], area)) left.push_back(waiting[k]);
    waiting.swap(left);
  }
  return parts;
}

}  // namespace

FaceSearch::FaceSearch(const Options& options, const palm_kits_network* network)
    : detector_(network, kKeypoints, kMaxEnlarged),
      size_(options.detector_size ? options.detector_size : kLast),
      tile_(options.tile),
      // Tiles are meant for small faces.
      is_quick_(!options.detector_size && !options.tile),
      is_video_(options.is_video) {}

Candidates FaceSearch::find(View image, const Box& area, double min_score, size_t enough,
                            double smallest) const {
  const double longer = std::max(area.width(), area.height());
  const double first = std::min(kGlance / longer, kMaxEnlarged);
  const double second = std::min(kFirst / longer, kMaxEnlarged);
  if (is_quick_ && enough && smallest >= kQuickFace / first) {
    const Candidates found =
        detector_.search(image, area, kGlance, static_cast<float>(min_score * kDoubt), 0);
    const Candidates sure = found.take([&](size_t row) { return scores(found, row, min_score); });
    const auto is_large = [&](const Corners<float>& box) {
      return longer_side(box) >= static_cast<float>(kQuickFace / first);
    };
    const bool all_large = std::all_of(found.boxes.begin(), found.boxes.end(), is_large);
    if (found.size() && sure.size() == found.size() && all_large) return found;
    if (sure.size() >= enough) return sure;
  }
  if (!is_quick_ || smallest < kQuickFace / second)
    return detector_.search(image, area, size_, static_cast<float>(min_score), tile_);
  return closer(image, area, min_score, second, enough);
}

Candidates FaceSearch::closer(View image, const Box& area, double min_score, double scale,
                              size_t enough) const {
  const Candidates seen =
      detector_.infer_whole(image, area, kFirst, static_cast<float>(min_score * kTinyDoubt));
  const Candidates certain = seen.take([&](size_t row) { return scores(seen, row, min_score); });
  const Candidates sure = merged(certain);
  const double least = min_score * (certain.size() ? kDoubt : kTinyDoubt);
  const auto doubtful =
      seen.take([&](size_t row) { return is_in_doubt(seen, row, scale, min_score); });
  bool is_worth_it = false;
  for (size_t row = 0; row < doubtful.size(); ++row)
    is_worth_it = is_worth_it || scores(doubtful, row, least);
  const bool is_enough = enough && sure.size() >= enough;
  if (is_enough || scale == kMaxEnlarged || !is_worth_it) return sure;
  const std::vector<Part> parts = surroundings(doubtful, area, kMostCloser + 1);
  if (parts.size() > kMostCloser) return crowd(image, area, min_score, parts, sure, scale);
  Candidates found = without_doubt(sure, scale, min_score);
  const auto score = static_cast<float>(confirmed(min_score));
  // The likeliest first; only if it is a face, all others.
  const Candidates likeliest = detector_.infer_parts(image, area, {parts[0]}, kCloserSide, score);
  found.add(likeliest);
  if (likeliest.size() && parts.size() > 1)
    found.add(
        detector_.infer_parts(image, area, {parts.begin() + 1, parts.end()}, kCloserSide, score));
  return merged(found);
}

// Looks at the likeliest parts and, if they show faces, at the whole in more pixels.
Candidates FaceSearch::crowd(View image, const Box& area, double min_score,
                             const std::vector<Part>& parts, const Candidates& sure,
                             double scale) const {
  const auto count = static_cast<ptrdiff_t>(is_video_ ? 1 : kCrowdProbes);
  const double least = std::min({confirmed(min_score), kCrowdScores[0], kCrowdScores[1]});
  const Candidates best = merged(detector_.infer_parts(
      image, area, {parts.begin(), parts.begin() + count}, kCloserSide, static_cast<float>(least)));
  bool is_crowd = false;
  for (size_t row = 0; row < std::min<size_t>(best.size(), 2); ++row)
    is_crowd = is_crowd || scores(best, row, confirmed(min_score)) ||
               (!is_video_ && best.scores[row] >= kCrowdScores[row]);
  if (is_crowd) return detector_.search(image, area, size_, static_cast<float>(min_score), 0);
  return without_doubt(sure, scale, min_score);
}

}  // namespace palm_kits
