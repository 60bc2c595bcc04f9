// The kit of face meshes, as palmkit.kits.face.mesh_kit and following.
#include <algorithm>
#include <cstring>

#include "calls.h"
#include "closeup.h"
#include "face_search.h"

namespace palm_kits {
namespace {

// These are the numbers of palmkit.kits.face.following, which says what each means.
constexpr double kMemoryS = 0.7, kMisleadingS = 0.2;
constexpr size_t kMinPlaces = 3, kMaxPlaces = 128;
constexpr float kShrunk = 0.93f, kReach = 1.2f;
constexpr float kFarthest = 4.f;  // no point is further from its crop's corner, in sides
// Each keypoint of a face is the mean of four points, or one alone.
constexpr size_t kKeypoints[5][4] = {{263, 362, 386, 374},
                                     {33, 133, 159, 145},
                                     {4, 4, 4, 4},
                                     {291, 291, 291, 291},
                                     {61, 61, 61, 61}};

class MeshTrack : public Track {
 public:
  using Track::Track;

  void take(const Sight& now, double time_s) override {
    Track::take(now, time_s);
    if (!now.place) {
      const Similarity back = view_.inverse();
      const Corners<float> box = now.box();
      places_.push_back({time_s, back.box({box[0], box[1], box[2], box[3]}), back.crop(now.crop)});
      if (places_.size() > kMaxPlaces) places_.pop_front();
    }
    while (!places_.empty() && places_.front().time_s < time_s - kMemoryS) places_.pop_front();
  }

  void move(const Similarity& motion) override {
    Track::move(motion);
    view_ = motion.after(view_);
  }

  // Whether the two are so near that one may pass in front of the other.
  bool may_hide(const MeshTrack& other) const {
    const Corners<float> a = sight.box(), b = other.sight.box();
    for (size_t i = 0; i < 2; ++i) {
      const float reach = (a[i + 2] - a[i] + b[i + 2] - b[i]) / 2 * kReach;
      if (!(std::abs(a[i] + a[i + 2] - b[i] - b[i + 2]) / 2 < reach)) return false;
    }
    return true;
  }

  // Box and crop if it moved on as before; nothing if it was not seen for long.
  std::optional<std::pair<Corners<float>, Crop>> expected(double time_s) const {
    std::vector<const Seen*> places;
    for (const Seen& each : places_)
      if (each.time_s <= time_s - kMisleadingS) places.push_back(&each);
    if (places.size() < kMinPlaces) return std::nullopt;
    const auto count = static_cast<double>(places.size());
    const auto x = [](const Seen* each) { return (each->box[0] + each->box[2]) / 2; };
    const auto y = [](const Seen* each) { return (each->box[1] + each->box[3]) / 2; };
    double mean_s = 0, mean_x = 0, mean_y = 0, spread = 0, along_x = 0, along_y = 0;
    for (const Seen* each : places) mean_s += each->time_s, mean_x += x(each), mean_y += y(each);
    mean_s /= count, mean_x /= count, mean_y /= count;
    for (const Seen* each : places) {
      const double since_s = each->time_s - mean_s;
      spread += since_s * since_s, along_x += since_s * x(each), along_y += since_s * y(each);
    }
    const Seen& last = *places.back();
    const double ahead_s = time_s - mean_s;
    const double way_x = mean_x + along_x / spread * ahead_s - x(&last);
    const double way_y = mean_y + along_y / spread * ahead_s - y(&last);
    const Corners<double> moved = view_.box(
        {last.box[0] + way_x, last.box[1] + way_y, last.box[2] + way_x, last.box[3] + way_y});
    Corners<float> box;
    for (size_t i = 0; i < 4; ++i) box[i] = static_cast<float>(moved[i]);
    Crop crop = last.crop;
    crop.x += way_x, crop.y += way_y;
    return std::make_pair(box, view_.crop(crop));
  }

  MeshFilter filter;

 private:
  struct Seen {
    double time_s;
    Corners<double> box;
    Crop crop;
  };
  Similarity view_;  // how the camera moved since the first frame; places are in its pixels
  std::deque<Seen> places_;
};

// Whether a mesh covers clearly less than a box.
bool is_shrunk(const Sight& sight, const Corners<float>& box) {
  const Corners<float> own = sight.box();
  return (own[2] - own[0]) * (own[3] - own[1]) <
         kShrunk * kShrunk * ((box[2] - box[0]) * (box[3] - box[1]));
}

class MeshKit : public CloseUp {
 public:
  MeshKit(const Options& options, const palm_kits_network* detector, const palm_kits_network* mesh)
      : CloseUp(options, mesh, "mesh", 0.4f), search_(options, detector) {}

 protected:
  std::vector<Candidate> candidates(View image, const Box& area) override {
    const Candidates found =
        search_.find(image, area, options_.min_score, static_cast<size_t>(options_.max_count));
    std::vector<Candidate> all;
    for (size_t row = 0; row < found.size(); ++row) {
      const Corners<float> box = clipped(found.boxes[row], image.width, image.height);
      const double left = box[0], top = box[1], width = box[2] - left, height = box[3] - top;
      if (!(width > 0 && height > 0)) continue;
      const Crop crop = face_crop(found.points_of(row), {left, top, width, height});
      // The detector tells faces from what looks like one better than the mesh.
      all.push_back({box, crop, found.scores[row]});
    }
    return all;
  }

  std::optional<Sight> infer(View image, const Crop& crop, bool mirrored) override {
    Picture drawn = sample(image, crop, side_);
    if (mirrored) flip(drawn);
    std::vector<Output> outputs{
        {"points", {1, kMeshPoints, 3}}, {"visibility", {1, kMeshPoints}}, {"presence", {1, 1}}};
    network_.run(drawn, outputs);
    const std::vector<float>&points = outputs[0].data, &visibility = outputs[1].data;
    const double presence = outputs[2].data[0];
    if (!may_be(presence) || !are_within(points, kFarthest) || !are_within(visibility, 1))
      return std::nullopt;
    Sight sight;
    sight.points = points, sight.also = visibility, sight.outline = kFirstIris;
    if (mirrored) {
      for (size_t i = 0; i < kMeshPoints; ++i) {
        const auto other = static_cast<size_t>(mesh_mirror()[i]);
        sight.also[i] = visibility[other];
        sight.points[3 * i] = 1 - points[3 * other];
        sight.points[3 * i + 1] = points[3 * other + 1];
        sight.points[3 * i + 2] = points[3 * other + 2];
      }
    }
    crop.to_picture(sight.points.data(), kMeshPoints, 3);
    sight.presence = std::min(presence, 1.0);
    sight.crop = mirrored ? crop : settled(crop, mesh_crop(sight.points.data()));
    return sight;
  }

  std::unique_ptr<Track> new_track(const Sight& sight, double time_s) override {
    return std::make_unique<MeshTrack>(sight, time_s);
  }

  std::optional<Sight> follow(View image, Track& track, const std::vector<Track*>& known,
                              double time_s) override {
    std::optional<Sight> mesh = infer_well(image, track.sight.crop);
    const auto& own = static_cast<const MeshTrack&>(track);
    const auto hides = [&](Track* each) {
      return each != &track && static_cast<const MeshTrack*>(each)->may_hide(own);
    };
    if (!mesh || std::none_of(known.begin(), known.end(), hides)) return mesh;
    const auto expected = own.expected(time_s);
    if (!expected || !is_shrunk(*mesh, expected->first)) return mesh;
    // The mesh of a face behind another one shrinks to its visible part.
    std::optional<Sight> again = infer(image, expected->second, false);
    if (!again || !is_shrunk(*again, expected->first)) return again;
    again->crop = expected->second, again->place = expected->first;
    return again;
  }

  bool is_wanted(View image, const Sight& sight) const override {
    const Corners<float> box = sight.box();
    return std::min(box[2] - box[0], box[3] - box[1]) >= options_.least_side(image);
  }

 private:
  const FaceSearch search_;
};

}  // namespace
}  // namespace palm_kits

using namespace palm_kits;

struct palm_kits_meshes {
  std::unique_ptr<MeshKit> kit;
};

palm_kits_status palm_kits_meshes_create(const palm_kits_network* detector,
                                         const palm_kits_network* mesh,
                                         const palm_kits_options* options, palm_kits_meshes** kit) {
  return making(kit, [&] { return std::make_unique<MeshKit>(Options(options), detector, mesh); });
}

void palm_kits_meshes_free(palm_kits_meshes* kit) { delete kit; }

palm_kits_status palm_kits_meshes_run(palm_kits_meshes* kit, const palm_kits_image* image,
                                      const palm_kits_part* part, const palm_kits_frame* frame,
                                      palm_kits_mesh* meshes, palm_kits_list* list) {
  return guarded([&] {
    MeshKit& own = *given(kit, "kit")->kit;
    given(list, "list")->count = 0, given(meshes, list->room, "meshes");
    const Pixels pixels(image);
    const std::vector<Found> found = own.run(pixels.view(), part, frame);
    std::vector<std::vector<float>> points;
    Boxes corners;
    for (const Found& each : found) {
      points.push_back(each.sight.points);
      if (each.track && own.options().is_smooth)
        static_cast<MeshTrack*>(each.track)
            ->filter.filter(points.back().data(), each.track->seen_s, points.back().data());
      corners.push_back(box_round(points.back().data(), kFirstIris, 3));
    }
    const std::vector<Shown> all = shown(pixels.view(), corners, found, own.options().max_count);
    put_count(*list, all.size(), "meshes");
    for (size_t i = 0; i < all.size(); ++i) {
      const Found& each = found[all[i].row];
      const std::vector<float>& at = points[all[i].row];
      palm_kits_mesh& to = meshes[i];
      std::copy(all[i].box.begin(), all[i].box.end(), to.face.box);
      to.face.score = static_cast<float>(each.sight.presence), to.face.id = each.id;
      for (size_t k = 0; k < 5; ++k) {
        for (size_t axis = 0; axis < 2; ++axis) {
          float sum = 0;
          for (size_t point : kKeypoints[k]) sum += at[3 * point + axis];
          to.face.keypoints[k][axis] = sum / 4;
        }
      }
      std::memcpy(to.points, at.data(), sizeof to.points);
      std::memcpy(to.visibility, each.sight.also.data(), sizeof to.visibility);
    }
  });
}
