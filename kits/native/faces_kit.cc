// The kit of faces, as palmkit.kits.face.kit.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "calls.h"
#include "face_search.h"
#include "options.h"

namespace palm_kits {
namespace {

// These are the numbers of palmkit.kits.face.kit, which says what each means.
constexpr double kFollowReach = 2.5, kKeepScore = 0.6, kMaxEnlarged = 2.0;
constexpr int kFollowSide = 160;
constexpr size_t kKeypoints = 5;

float shorter_side(const Corners<float>& box) { return std::min(box[2] - box[0], box[3] - box[1]); }

// The square to infer round a face; in steps, so that it is steady for a still one.
Part surroundings(double x, double y, double size) {
  const double steps = std::nearbyint(4 * std::log2(std::max(size, 1.0))) / 4;
  const double side = std::nearbyint(kFollowReach * std::exp2(steps));
  const double step = std::max(std::floor(side / 8), 1.0);
  const auto start = [&](double middle) {
    return std::nearbyint((middle - side / 2) / step) * step;
  };
  return {start(x), start(y), side, side};
}

class FaceKit {
 public:
  FaceKit(const Options& options, const palm_kits_network* detector)
      : options_(options), search_(options, detector) {}

  std::vector<palm_kits_face> run(View image, const palm_kits_part* part,
                                  const palm_kits_frame* frame) {
    const Box area = clipped(part, image);
    const Similarity motion = motion_of(frame, options_);
    if (options_.is_video) return track(image, part, area, motion, timestamp_of(frame));
    const Candidates found = search_.find(image, area, options_.min_score, 0);
    return finished(image, found, std::vector<int64_t>(found.size(), -1));
  }

 private:
  std::vector<palm_kits_face> track(View image, const palm_kits_part* part, const Box& area,
                                    const Similarity& motion, double timestamp_ms) {
    const double time_s = clock_.tick(timestamp_ms);
    const double keep_score = options_.min_score * kKeepScore;
    tracker_.look_from(motion.after(tracker_.view()), image.width, image.height);
    const Boxes known = tracker_.predict(time_s);
    const bool due = since_search_ + 1 >= options_.detect_every || tracker_.is_waiting();
    // With many faces the whole picture costs less to infer than each of them.
    const double whole = static_cast<double>(search_.size()) * search_.size() *
                         std::min(image.width, image.height) / std::max(image.width, image.height);
    const bool is_cheaper = static_cast<double>(known.size()) * kFollowSide * kFollowSide < whole;
    std::optional<Candidates> found;
    if (!known.empty() && !due && is_cheaper)
      found = follow(image, known, static_cast<float>(keep_score));
    since_search_ = found ? since_search_ + 1 : 0;
    if (!found) {
      double smallest = std::numeric_limits<double>::infinity();
      for (const Corners<float>& box : known)
        smallest = std::min<double>(smallest, std::max(box[2] - box[0], box[3] - box[1]));
      found = search_.find(image, area, keep_score, 0, smallest);
    }
    found = found->take([&](size_t row) { return is_inside(found->boxes[row], part); });
    std::vector<char> sure;
    for (float score : found->scores)
      sure.push_back(score >= static_cast<float>(options_.min_score));
    const std::vector<int64_t> all = tracker_.update(found->boxes, sure, time_s);
    Candidates kept = found->take([&](size_t row) { return all[row] >= 0; });
    std::vector<int64_t> ids;
    std::copy_if(all.begin(), all.end(), std::back_inserter(ids),
                 [](int64_t id) { return id >= 0; });
    if (options_.is_smooth) smooth(kept, ids);
    return finished(image, kept, ids);
  }

  void smooth(Candidates& faces, const std::vector<int64_t>& ids) {
    constexpr size_t kNumbers = 4 + 2 * kKeypoints;
    std::vector<float> values, sizes;
    for (size_t row = 0; row < faces.size(); ++row) {
      values.insert(values.end(), faces.boxes[row].begin(), faces.boxes[row].end());
      values.insert(values.end(), faces.points_of(row), faces.points_of(row) + 2 * kKeypoints);
      sizes.push_back(shorter_side(faces.boxes[row]));
    }
    tracker_.smooth(ids, values.data(), kNumbers, sizes.data());
    for (size_t row = 0; row < faces.size(); ++row) {
      const float* const from = &values[kNumbers * row];
      std::copy_n(from, 4, faces.boxes[row].begin());
      std::copy_n(from + 4, 2 * kKeypoints, &faces.points[2 * kKeypoints * row]);
    }
  }

  // Looks for each face only near its expected place; nothing if one is not there.
  std::optional<Candidates> follow(View image, const Boxes& known, float min_score) const {
    const Part whole{0, 0, static_cast<double>(image.width), static_cast<double>(image.height)};
    Candidates found{kKeypoints, {}, {}, {}};
    for (const Corners<float>& box : known) {
      const double x = (box[0] + box[2]) / 2, y = (box[1] + box[3]) / 2;
      if (!(0 <= x && x < whole[2] && 0 <= y && y < whole[3])) return std::nullopt;
      const Part part = surroundings(x, y, std::max(box[2] - box[0], box[3] - box[1]));
      const Candidates seen =
          Detector::uncut(search_.detector().infer(image, part, {kFollowSide, kFollowSide},
                                                   min_score, kMaxEnlarged),
                          part, whole);
      if (!seen.size()) return std::nullopt;
      found.add(seen);
    }
    return merged(found);
  }

  // Clipped, filtered and ordered, in the user's pixels.
  std::vector<palm_kits_face> finished(View image, const Candidates& found,
                                       const std::vector<int64_t>& ids) const {
    std::vector<size_t> order;
    Boxes boxes;
    const double least = options_.least_side(image);
    for (size_t row = 0; row < found.size(); ++row) {
      boxes.push_back(clipped(found.boxes[row], image.width, image.height));
      const float side = shorter_side(boxes[row]);
      if (side > 0 && side >= least) order.push_back(row);
    }
    const auto ordered = [&](auto key) {
      std::vector<double> keys;
      for (size_t row : order) keys.push_back(key(row));
      std::vector<size_t> best;
      for (size_t place : falling(keys)) best.push_back(order[place]);
      order.swap(best);
    };
    const auto score = [&](size_t row) { return static_cast<double>(found.scores[row]); };
    // Which faces count must not flicker in a video: the longest tracked come first.
    if (options_.is_video) ordered([&](size_t row) { return -static_cast<double>(ids[row]); });
    else ordered(score);
    if (options_.max_count)
      order.resize(std::min(order.size(), static_cast<size_t>(options_.max_count)));
    ordered(score);
    std::vector<palm_kits_face> faces;
    for (size_t row : order) {
      const Corners<float>& box = boxes[row];
      palm_kits_face face{
          {box[0], box[1], box[2] - box[0], box[3] - box[1]}, found.scores[row], {}, ids[row]};
      std::copy_n(found.points_of(row), 2 * kKeypoints, &face.keypoints[0][0]);
      faces.push_back(face);
    }
    return faces;
  }

  const Options options_;
  const FaceSearch search_;
  Clock clock_;
  Tracker tracker_;
  int since_search_ = 0;
};

}  // namespace
}  // namespace palm_kits

using namespace palm_kits;

struct palm_kits_faces {
  FaceKit kit;
};

palm_kits_status palm_kits_faces_create(const palm_kits_network* detector,
                                        const palm_kits_options* options, palm_kits_faces** kit) {
  return making(kit, [&] { return FaceKit(Options(options), detector); });
}

void palm_kits_faces_free(palm_kits_faces* kit) { delete kit; }

palm_kits_status palm_kits_faces_run(palm_kits_faces* kit, const palm_kits_image* image,
                                     const palm_kits_part* part, const palm_kits_frame* frame,
                                     palm_kits_face* faces, palm_kits_list* list) {
  return guarded([&] {
    FaceKit& own = given(kit, "kit")->kit;
    given(list, "list")->count = 0, given(faces, list->room, "faces");
    const Pixels pixels(image);
    const std::vector<palm_kits_face> found = own.run(pixels.view(), part, frame);
    put_count(*list, found.size(), "faces");
    std::copy(found.begin(), found.end(), faces);
  });
}
