#include "face_search.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

namespace palm_kits {
namespace {

// These are the numbers of palmkit.kits.face.search and .certainty, which say what each means.
constexpr int kGlance = 160, kFirst = 320, kLast = 640, kCloserSide = 128;
constexpr size_t kKeypoints = 5, kMostCloser = 8, kCrowdProbes = 4;
constexpr double kMaxEnlarged = 2.0, kQuickFace = 24, kTinyFace = 12, kDoubt = 0.35;
constexpr double kTinyDoubt = 1.0 / 12, kReach = 3, kConfirmed = 1.0 / 8;
constexpr double kCrowdScores[] = {0.65, 0.45}, kSecondSure = 0.45;
constexpr double kStep = 2, kMostEnlarged = 3, kHeat[] = {0.05, 0.1}, kWindow = 3;
constexpr double kLeastWindow = 8, kTooLarge = 96, kCompany = 0.5;
constexpr float kBefore = 0.2f, kSamePlace = 0.3f, kAdded = 0.2f, kCertain = 0.999f;
constexpr size_t kOthers = 5;

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

// Whether several of these faces, seen at this scale, are small.
bool is_crowd(const Candidates& found, double scale) {
  size_t count = 0;
  for (size_t row = 0; row < found.size(); ++row) {
    const float side = longer_side(found.boxes[row]) * static_cast<float>(scale);
    count += side < static_cast<float>(kQuickFace) && scores(found, row, kCrowdScores[1]);
  }
  return count >= 2;
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

bool shows_place(const Sheet& sheet, const Corners<float>& place) {
  return std::any_of(sheet.parts.begin(), sheet.parts.end(), [&](const Part& part) {
    bool is_inside = true;
    for (size_t i = 0; i < 2; ++i) {
      const auto low = static_cast<float>(part[i]);
      is_inside =
          is_inside && place[i] >= low && place[i + 2] <= low + static_cast<float>(part[i + 2]);
    }
    return is_inside;
  });
}

float logit(float score) {
  score = std::min(std::max(score, 1 - kCertain), kCertain);
  return std::log(score / (1 - score));
}

// A look's candidates, as sure as it and the look before say.
Candidates as_both_say(Candidates found, const Candidates& before) {
  for (size_t row = 0; row < found.size(); ++row) {
    auto earlier = static_cast<float>(kHeat[0]);
    for (size_t each = 0; each < before.size(); ++each)
      if (iou(found.boxes[row], before.boxes[each]) >= kSamePlace)
        earlier = std::max(earlier, before.scores[each]);
    const float sum = (1 - kBefore) * logit(found.scores[row]) + kBefore * logit(earlier) + kAdded;
    found.scores[row] = 1 / (1 + std::exp(-sum));
  }
  return found;
}

// A crowd's faces that score at least min_score, those of less than `small` pixels by their
// company.
Candidates in_company(const Candidates& found, double min_score, double small) {
  const Candidates others =
      merged(found.take([&](size_t row) { return found.scores[row] >= kCrowdScores[1]; }));
  const auto bonus = static_cast<float>(std::exp(-kCompany));
  Candidates raised = found;
  std::vector<double> least;
  for (size_t row = 0; row < found.size(); ++row) {
    const float side = longer_side(found.boxes[row]);
    size_t like = 0;  // itself, too
    for (const Corners<float>& each : others.boxes) {
      const float ratio = side / longer_side(each);
      like += ratio > 0.5f && ratio < 2.f;
    }
    const bool is_small = side<static_cast<float>(small), is_in_company = like> kOthers;
    const float score = std::min(std::max(found.scores[row], 0.f), 1.f);
    raised.scores[row] = is_small && is_in_company ? score / (score + (1 - score) * bonus) : score;
    least.push_back(is_small && !is_in_company ? confirmed(min_score) : min_score);
  }
  return merged(raised.take([&](size_t row) { return raised.scores[row] >= least[row]; }));
}

}  // namespace

FaceSearch::FaceSearch(const Options& options, const palm_kits_network* network)
    : detector_(network, kKeypoints, kMaxEnlarged),
      size_(options.detector_size ? options.detector_size : kLast),
      tile_(options.tile),
      // Tiles are meant for small faces.
      is_quick_(!options.detector_size && !options.tile),
      is_video_(options.is_video),
      // Crowds are looked for as without a size, unless that asks for speed.
      looks_closer_(!is_video_ && !tile_ && size_ >= kFirst) {}

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
  if (!is_quick_ || smallest < kQuickFace / second) {
    const Candidates found =
        detector_.search(image, area, size_, static_cast<float>(min_score), tile_);
    const bool is_nobody = !found.size() && kLast < size_ && size_ < longer;
    if (!looks_closer_ || !(is_nobody || is_crowd(found, second))) return found;
  }
  const Candidates found = closer(image, area, min_score, kFirst, enough);
  if (found.size() || is_video_ || longer <= kLast) return found;
  // Faces of a large picture may be too small there to be seen at all.
  const Candidates again = closer(image, area, min_score, kLast, enough);
  const double sure = min_score + (1 - min_score) * kSecondSure;
  for (size_t row = 0; row < again.size(); ++row)
    if (scores(again, row, sure)) return again;
  return found;
}

Candidates FaceSearch::closer(View image, const Box& area, double min_score, int size,
                              size_t enough) const {
  const double longer = std::max(area.width(), area.height());
  const double scale = std::min(size / longer, kMaxEnlarged);
  const Candidates seen =
      detector_.infer_whole(image, area, size, static_cast<float>(min_score * kTinyDoubt));
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
  if (parts.size() > kMostCloser) return crowd(image, area, min_score, parts, seen, scale);
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

// Looks at the likeliest parts and, if they show faces, at all that may be small ones.
Candidates FaceSearch::crowd(View image, const Box& area, double min_score,
                             const std::vector<Part>& parts, const Candidates& seen,
                             double scale) const {
  const auto count = static_cast<ptrdiff_t>(is_video_ ? 1 : kCrowdProbes);
  const double least = std::min({confirmed(min_score), kCrowdScores[0], kCrowdScores[1]});
  const Candidates best = merged(detector_.infer_parts(
      image, area, {parts.begin(), parts.begin() + count}, kCloserSide, static_cast<float>(least)));
  bool are_many = false, is_sure = false;
  for (size_t row = 0; row < std::min<size_t>(best.size(), 2); ++row) {
    are_many = are_many || best.scores[row] >= kCrowdScores[row];
    is_sure = is_sure || scores(best, row, confirmed(min_score));
  }
  if (are_many && !is_video_) return ever_closer(image, area, min_score, seen, scale);
  if (is_sure) return detector_.search(image, area, size_, static_cast<float>(min_score), 0);
  const Candidates sure =
      merged(seen.take([&](size_t row) { return scores(seen, row, min_score); }));
  return without_doubt(sure, scale, min_score);
}

// Looks ever closer where small faces may be, until none is left. What is small counts as the two
// closest looks at it say.
Candidates FaceSearch::ever_closer(View image, const Box& area, double min_score, Candidates seen,
                                   double scale) const {
  std::vector<palm_kits_size> sizes;
  for (const palm_kits_size& each : sheet_sizes())
    if (detector_.holds(each)) sizes.push_back(each);
  int longest = 0;
  for (const palm_kits_size& each : sizes)
    longest = std::max(longest, std::min(each.width, each.height));
  // A network that runs at no such size sees the whole in more pixels.
  if (!longest) return detector_.search(image, area, size_, static_cast<float>(min_score), 0);
  const double first_scale = scale;
  const auto looks =
      1 + static_cast<int>(std::ceil(std::log(kMostEnlarged / scale) / std::log(kStep)));
  Candidates found{kKeypoints, {}, {}, {}};
  for (int look = 0; look < looks; ++look) {
    const auto heat = static_cast<float>(kHeat[look > 0]);
    const double closer = std::min(scale * kStep, kMostEnlarged);
    const auto small = static_cast<float>(kQuickFace * closer / scale / kStep);
    const auto is_hot = [&](size_t row) {
      return longer_side(seen.boxes[row]) * static_cast<float>(scale) < small &&
             seen.scores[row] >= heat;
    };
    found.add(seen.take([&](size_t row) { return !is_hot(row); }));
    const Candidates hot = seen.take(is_hot);
    const Boxes places = windows(hot.boxes, kWindow, kLeastWindow / scale, area);
    Boxes wanted;  // a middle outside of the area has no window
    std::copy_if(places.begin(), places.end(), std::back_inserter(wanted),
                 [](const Corners<float>& each) { return each[2] > each[0] && each[3] > each[1]; });
    std::vector<bool> is_shown(hot.size());
    Candidates next{kKeypoints, {}, {}, {}};
    for (const Sheet& sheet :
         sheets(rectangles(wanted, kGap / closer, longest / closer - 1), closer, sizes)) {
      next.add(detector_.infer_sheet(image, area, sheet, static_cast<float>(kHeat[0]), closer));
      for (size_t row = 0; row < places.size(); ++row)
        is_shown[row] = is_shown[row] || shows_place(sheet, places[row]);
    }
    found.add(hot.take([&](size_t row) { return !is_shown[row]; }));
    scale = closer;
    next = as_both_say(std::move(next), merged(hot));
    seen = next.take([&](size_t row) {
      return longer_side(next.boxes[row]) * static_cast<float>(scale) <
             static_cast<float>(kTooLarge);
    });
    if (!seen.size()) break;
  }
  found.add(seen);
  return in_company(found, min_score, kQuickFace / first_scale);
}

}  // namespace palm_kits
