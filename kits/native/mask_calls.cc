// The calls of palm_kits.h for masks of single pictures.
#include <algorithm>

#include "calls.h"
#include "refine.h"
#include "resize.h"

using namespace palm_kits;

namespace {

MaskView coarse_of(const float* coarse, int32_t width, int32_t height, const char* what) {
  if (width < 1 || height < 1 || width > 4096 || height > 4096)
    refuse("%s: expected sides of 1 to 4096, got %dx%d", what, width, height);
  all_finite(given(coarse, what), static_cast<size_t>(width) * static_cast<size_t>(height), what);
  return {coarse, width, height, width};
}

}  // namespace

palm_kits_status palm_kits_mask_clean(float* mask, int32_t width, int32_t height) {
  return guarded([&] {
    Mask own = copied<float, 1>(coarse_of(mask, width, height, "mask"));
    fade_specks(own);
    std::copy_n(own.data(), own.size(), mask);
  });
}

palm_kits_status palm_kits_mask_enlarge(const palm_kits_image* image, const float* coarse,
                                        int32_t coarse_width, int32_t coarse_height,
                                        int32_t is_refined, const palm_kits_mask* mask) {
  return guarded([&] {
    const Pixels pixels(image);
    const MaskView own = coarse_of(coarse, coarse_width, coarse_height, "coarse");
    const Rows<float, 1> to = mask_of(mask, pixels.view(), "mask");
    if (is_refined != 0 && is_refined != 1)
      refuse("is_refined: expected 0 or 1, got %d", is_refined);
    if (is_refined) refine(pixels.view(), own, resize(pixels.view(), own.width, own.height), to);
    else resize_linear<float, 1>(own, to);
  });
}

palm_kits_status palm_kits_mask_opacity(const palm_kits_image* image, const palm_kits_mask* mask,
                                        const palm_kits_mask* alpha) {
  return guarded([&] {
    const Pixels pixels(image);
    const Rows<float, 1> from = mask_of(mask, pixels.view(), "mask");
    const Rows<float, 1> to = mask_of(alpha, pixels.view(), "alpha");
    for (int y = 0; y < from.height; ++y)
      all_finite(from.row(y), static_cast<size_t>(from.width), "mask");
    if (from.data == to.data) refuse("alpha: expected another buffer than the mask's");
    opacity(pixels.view(), from, to);
  });
}
