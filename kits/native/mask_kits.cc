// The kits of masks, as palmkit.kits.portrait.kit and hair.
#include <memory>
#include <optional>

#include "calls.h"
#include "planes.h"
#include "refine.h"
#include "segmenter.h"
#include "views.h"

namespace palm_kits {
namespace {

class PortraitKit : public Segmenter {
 public:
  PortraitKit(const Options& options, const palm_kits_network* portrait,
              const palm_kits_network* finder)
      : Segmenter(options, portrait, "portrait") {
    if (finder) finder_.emplace(finder, "finder"), finder_->side();
  }

  void run(View image, const palm_kits_part* part, const palm_kits_frame* frame,
           Rows<float, 1> mask) {
    const Box area = clipped(part, image);
    const std::optional<double> time_s = tick(frame);
    const View picture = palm_kits::part_of(image, area);
    Halves halves(picture);
    Box box{0, 0, picture.width, picture.height};
    if (!time_s && finder_ && options_.second_pass) box = people(halves).value_or(box);
    Picture view = halves.part(box, side_);
    Mask coarse = infer_clean(view);
    if (!time_s && finder_ && options_.second_pass) {
      if (const std::optional<Box> nearer = closer(coarse, box)) {
        box = *nearer, view = halves.part(box, side_);
        coarse = infer_clean(view);
      }
    }
    if (time_s && options_.is_smooth) {
      const Part place{static_cast<double>(area.left), static_cast<double>(area.top),
                       static_cast<double>(area.width()), static_cast<double>(area.height())};
      steady_.update(coarse, view, place, *time_s);
    }
    box = {area.left + box.left, area.top + box.top, area.left + box.right, area.top + box.bottom};
    if (!(box == Box{0, 0, image.width, image.height})) fill(mask, 0);
    enlarge(palm_kits::part_of(image, box), coarse, view, part_of(mask, box));
  }

 private:
  // The part of the picture where people are; nothing where nobody is seen.
  std::optional<Box> people(Halves& picture) const {
    const int side = finder_->side();
    std::vector<Output> outputs{{"mask", {1, side / 2, side / 2, 1}}};
    finder_->run(picture.glance(side), outputs);
    const MaskView found{outputs[0].data.data(), side / 2, side / 2, side / 2};
    return box_of_people(found, picture.width(), picture.height());
  }

  Mask infer_clean(View view) const {
    Mask mask = infer(view);
    // Along outlines the network's values go up and down from one pixel to the next.
    smooth(mask, mask.rows());
    fade_specks(mask);
    return mask;
  }

  std::optional<Network> finder_;
  Steady steady_;
};

class HairKit : public Hair {
 public:
  using Hair::Hair;

  void run(View image, const palm_kits_part* part, const palm_kits_frame* frame,
           const palm_kits_face* faces, size_t count, Rows<float, 1> mask) {
    const Box area = clipped(part, image);
    std::vector<Face> all;
    for (size_t i = 0; i < count; ++i) {
      const float* const box = faces[i].box;
      all_finite(box, 4, "faces");
      all.push_back({{box[0], box[1], box[2], box[3]}, faces[i].id});
    }
    around(image, all, area, tick(frame), {true, false}, mask);
  }
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
