// The kits of masks, as palmkit.kits.portrait.kit and hair.
#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "calls.h"
#include "finder.h"
#include "following.h"
#include "people_search.h"
#include "planes.h"
#include "refine.h"
#include "segmenter.h"
#include "views.h"

namespace palm_kits {
namespace {

// Of palmkit.kits.portrait.views: how much of a picture the hair of somebody very near covers.
constexpr double kLarge = 0.1;

class PortraitKit : public Segmenter {
 public:
  PortraitKit(const Options& options, const palm_kits_network* portrait,
              const palm_kits_network* finder)
      : Segmenter(options, portrait, "portrait"),
        search_(
            side_, [this](View view) { return infer_clean(view); },
            options.second_pass ? finder : nullptr),
        following_(search_, options.is_smooth) {}

  void run(View image, const palm_kits_part* part, const palm_kits_frame* frame,
           Rows<float, 1> mask) {
    const Box area = clipped(part, image);
    const std::optional<double> time_s = tick(frame);
    Halves picture(palm_kits::part_of(image, area));
    const std::vector<PeopleSearch::Found> seen =
        time_s ? find_in_frame(picture, area, *time_s) : search_.find(picture);
    if (!(seen[0].box == Box{0, 0, image.width, image.height})) fill(mask, 0);
    for (const auto& [box, view, coarse] : seen) {
      const Box to{area.left + box.left, area.top + box.top, area.left + box.right,
                   area.top + box.bottom};
      const View part = palm_kits::part_of(image, to);
      if (seen.size() == 1) {
        enlarge(part, coarse, view, part_of(mask, to));
        continue;
      }
      // They may overlap.
      Mask fine(part.width, part.height);
      enlarge(part, coarse, view, fine.rows());
      for (int row = 0; row < part.height; ++row)
        for (int i = 0; i < part.width; ++i) {
          float& value = mask.row(to.top + row)[to.left + i];
          value = std::max(value, fine.row(row)[i]);
        }
    }
  }

 private:
  std::vector<PeopleSearch::Found> find_in_frame(Halves& picture, const Box& area, double time_s) {
    if (!following_.is_due(area)) return following_.follow(picture, time_s);
    PeopleSearch::Found whole = search_.look(picture, {0, 0, picture.width(), picture.height()});
    std::vector<PeopleSearch::Found> seen = following_.begin(picture, whole, time_s);
    if (seen.empty()) {
      if (options_.is_smooth) steady_.update(whole.mask, whole.view, part_of_box(area), time_s);
      seen.push_back(std::move(whole));
    }
    return seen;
  }

  Mask infer_clean(View view) const {
    Mask mask = infer(view);
    // Along outlines the network's values go up and down from one pixel to the next.
    smooth(mask, mask.rows());
    fade_specks(mask);
    return mask;
  }

  const PeopleSearch search_;
  Following following_;
  Steady steady_;
};

class HairKit : public Hair {
 public:
  using Hair::Hair;

  // From the next picture on; without a finder no more.
  void find_heads(const palm_kits_network* finder) {
    heads_.reset();
    if (finder) heads_.emplace(finder);
  }

  void run(View image, const palm_kits_part* part, const palm_kits_frame* frame,
           const palm_kits_face* faces, size_t count, Rows<float, 1> mask) {
    const Box area = clipped(part, image);
    std::vector<Face> all;
    for (size_t i = 0; i < count; ++i) {
      const float* const box = faces[i].box;
      all_finite(box, 4, "faces");
      all.push_back({{box[0], box[1], box[2], box[3]}, faces[i].id});
    }
    const std::optional<double> time_s = tick(frame);
    Looks looks = round_faces(image, all);
    const bool has_faces = !looks.empty();
    if (heads_) add_heads(image, all, area, time_s, looks);
    std::vector<Part> views;
    for (const auto& each : looks) views.push_back(each.second);
    look(image, std::move(looks), area, time_s, {true, false}, mask);
    // In a video with faces one more look at each frame would find little and take its time.
    if (heads_ && !views.empty() && far_only(views, part_of_box(area)) && !(time_s && has_faces))
      add(mask, image, area, part_of_box(area), whole_, time_s, {true, false, kLarge});
  }

 private:
  void add_heads(View image, const std::vector<Face>& faces, const Box& area,
                 std::optional<double> time_s, Looks& looks) {
    Halves picture(palm_kits::part_of(image, area));
    std::vector<Part> boxes;
    for (const Face& face : faces) {
      const auto& [x, y, width, height] = face.box;
      boxes.push_back({x - area.left, y - area.top, width, height});
    }
    for (auto [number, part] : heads_->update(picture, boxes, time_s)) {
      part[0] += area.left, part[1] += area.top;
      looks.push_back({{Whose::head, number}, part});
    }
  }

  std::optional<Heads> heads_;
  Steady whole_;
};

}  // namespace
}  // namespace palm_kits

using namespace palm_kits;

struct palm_kits_portrait {
  std::unique_ptr<PortraitKit> kit;
};
struct palm_kits_hair {
  std::unique_ptr<HairKit> kit;
};

palm_kits_status palm_kits_portrait_create(const palm_kits_network* portrait,
                                           const palm_kits_network* finder,
                                           const palm_kits_options* options,
                                           palm_kits_portrait** kit) {
  return making(kit,
                [&] { return std::make_unique<PortraitKit>(Options(options), portrait, finder); });
}

void palm_kits_portrait_free(palm_kits_portrait* kit) { delete kit; }

palm_kits_status palm_kits_portrait_run(palm_kits_portrait* kit, const palm_kits_image* image,
                                        const palm_kits_part* part, const palm_kits_frame* frame,
                                        const palm_kits_mask* mask) {
  return guarded([&] {
    const Pixels pixels(given(kit, "kit") ? image : nullptr);
    kit->kit->run(pixels.view(), part, frame, mask_of(mask, pixels.view(), "mask"));
  });
}

palm_kits_status palm_kits_hair_create(const palm_kits_network* hair,
                                       const palm_kits_options* options, palm_kits_hair** kit) {
  return making(kit, [&] { return std::make_unique<HairKit>(Options(options), hair); });
}

palm_kits_status palm_kits_hair_find_heads(palm_kits_hair* kit, const palm_kits_network* finder) {
  return guarded([&] { given(kit, "kit")->kit->find_heads(finder); });
}

void palm_kits_hair_free(palm_kits_hair* kit) { delete kit; }

palm_kits_status palm_kits_hair_run(palm_kits_hair* kit, const palm_kits_image* image,
                                    const palm_kits_part* part, const palm_kits_frame* frame,
                                    const palm_kits_face* faces, size_t face_count,
                                    const palm_kits_mask* mask) {
  return guarded([&] {
    const Pixels pixels(given(kit, "kit") ? image : nullptr);
    kit->kit->run(pixels.view(), part, frame, given(faces, face_count, "faces"), face_count,
                  mask_of(mask, pixels.view(), "mask"));
  });
}
