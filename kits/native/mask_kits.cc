// The kits of masks, as palmkit.kits.portrait.kit and hair.
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>

#include "calls.h"
#include "network.h"
#include "options.h"
#include "planes.h"
#include "refine.h"
#include "resize.h"
#include "views.h"

namespace palm_kits {
namespace {

void fill(Rows<float, 1> mask, float value) {
  for (int row = 0; row < mask.height; ++row) std::fill_n(mask.row(row), mask.width, value);
}

Rows<float, 1> part_of(Rows<float, 1> mask, const Box& box) {
  return mask.part(box.left, box.top, box.right, box.bottom);
}

// What both kits have: a network, and how its mask comes to the picture's size.
class Segmenter {
 public:
  Segmenter(const Options& options, const palm_kits_network* network, const char* what)
      : options_(options), network_(network, what), side_(network_.side()) {}

 protected:
  Mask infer(View view) const {
    std::vector<Output> outputs{{"mask", {1, side_, side_, 1}}};
    network_.run(view, outputs);
    Mask mask(side_, side_);
    // A user's own model may leave 0..1.
    for (size_t i = 0; i < mask.size(); ++i) {
      const float value = outputs[0].data[i];
      mask.data()[i] = value > 0.f ? std::min(value, 1.f) : 0.f;
    }
    return mask;
  }

  void enlarge(View image, MaskView coarse, View small, Rows<float, 1> to) const {
    if (options_.is_refined) refine(image, coarse, small, to);
    else resize_linear<float, 1>(coarse, to);
  }

  // The time of a frame; nothing of a picture.
  std::optional<double> tick(const palm_kits_frame* frame) {
    motion_of(frame, options_);
    const double timestamp_ms = timestamp_of(frame);
    if (!options_.is_video) return std::nullopt;
    return clock_.tick(timestamp_ms);
  }

  const Options options_;
  const Network network_;
  const int side_;

 private:
  Clock clock_;
};

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

class HairKit : public Segmenter {
 public:
  HairKit(const Options& options, const palm_kits_network* hair)
      : Segmenter(options, hair, "hair") {}

  void run(View image, const palm_kits_part* part, const palm_kits_frame* frame,
           const palm_kits_face* faces, size_t count, Rows<float, 1> mask) {
    const Box area = clipped(part, image);
    for (size_t i = 0; i < count; ++i) all_finite(faces[i].box, 4, "faces");
    const std::optional<double> time_s = tick(frame);
    fill(mask, 0);
    std::map<int64_t, Steady> seen;
    for (size_t i = 0; i < count; ++i) {
      const float* const box = faces[i].box;
      const Part view = square_round({box[0], box[1], box[2], box[3]}, image.width, image.height);
      if (view[2] > 0) add(mask, image, area, view, steady_of(seen, faces[i].id), time_s);
    }
    if (!count) {
      const Part view{static_cast<double>(area.left), static_cast<double>(area.top),
                      static_cast<double>(area.width()), static_cast<double>(area.height())};
      add(mask, image, area, view, steady_of(seen, -1), time_s);
    }
    steady_ = std::move(seen);
  }

 private:
  Steady& steady_of(std::map<int64_t, Steady>& seen, int64_t id) {
    const auto known = steady_.find(id);
    return known == steady_.end() ? seen[id] : seen[id] = known->second;
  }

  // Raises the mask to the network's result for a view, which may exceed the picture.
  void add(Rows<float, 1> mask, View image, const Box& area, const Part& view, Steady& steady,
           std::optional<double> time_s) {
    Box box{std::max(rounded(view[0]), area.left), std::max(rounded(view[1]), area.top),
            std::min(rounded(view[0] + view[2]), area.right),
            std::min(rounded(view[1] + view[3]), area.bottom)};
    if (box.left >= box.right || box.top >= box.bottom) return;
    if (std::min(box.width(), box.height()) >= 2 * side_) {
      // Halving exactly is quick, and the border's last pixels show nothing.
      box.right -= box.width() % 4, box.bottom -= box.height() % 4;
    }
    // Where the part that is in the picture lies in the network's input.
    const Box inside{start(box.left - view[0], view[2]), start(box.top - view[1], view[3]),
                     end(box.left - view[0], box.right - view[0], view[2]),
                     end(box.top - view[1], box.bottom - view[1], view[3])};
    const View crop = palm_kits::part_of(image, box);
    const Picture small = resize(crop, inside.width(), inside.height());
    Picture canvas(side_, side_);
    for (int y = 0; y < small.height(); ++y)
      std::copy_n(small.row(y), 3 * small.width(), canvas.row(inside.top + y) + 3 * inside.left);
    Mask coarse = infer(canvas);
    if (time_s && options_.is_smooth) steady.update(coarse, canvas, view, *time_s);
    const Mask own = copied<float, 1>(
        MaskView(coarse).part(inside.left, inside.top, inside.right, inside.bottom));
    Mask found(crop.width, crop.height);
    enlarge(crop, own, small, found.rows());
    const Rows<float, 1> whole = part_of(mask, box);
    for (int y = 0; y < whole.height; ++y)
      for (int x = 0; x < whole.width; ++x)
        whole.row(y)[x] = std::max(whole.row(y)[x], found.row(y)[x]);
  }

  int start(double low, double length) const {
    return std::min(std::max(rounded(low * (side_ / length)), 0), side_ - 1);
  }
  int end(double low, double high, double length) const {
    return std::min(std::max(rounded(high * (side_ / length)), start(low, length) + 1), side_);
  }

  std::map<int64_t, Steady> steady_;
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
