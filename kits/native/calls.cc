#include "calls.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace palm_kits {
namespace {

constexpr int kMostSide = 65536, kMostInput = 16384;
constexpr int64_t kMostPixels = int64_t{1} << 29;

// No destructor: a thread may end after the library.
thread_local char last_error[512];

std::string text_of(const char* format, va_list args) {
  char text[400];
  std::vsnprintf(text, sizeof text, format, args);
  return text;
}

// Bytes of a pixel, and where its red, green and blue lie.
struct Layout {
  int step, red, green, blue;
};

Layout layout_of(palm_kits_format format) {
  switch (format) {
    case PALM_KITS_RGB: return {3, 0, 1, 2};
    case PALM_KITS_BGR: return {3, 2, 1, 0};
    case PALM_KITS_RGBA: return {4, 0, 1, 2};
    case PALM_KITS_BGRA: return {4, 2, 1, 0};
    case PALM_KITS_GREY: return {1, 0, 0, 0};
    default: refuse("format: expected 0 to 4, got %d", format);
  }
}

void check_sides(int32_t width, int32_t height, int most, const char* what) {
  if (width < 1 || height < 1 || width > most || height > most ||
      int64_t{width} * height > kMostPixels)
    refuse("%s: expected sides of 1 to %d pixels, got %dx%d", what, most, width, height);
}

// Bytes from a row to the next one.
ptrdiff_t stride_of(size_t stride, size_t row, int32_t height, const char* what) {
  if (!stride) stride = row;
  if (stride < row)
    refuse("%s: expected a stride of %zu bytes or more, got %zu", what, row, stride);
  if (stride > static_cast<size_t>(PTRDIFF_MAX) / static_cast<size_t>(height))
    refuse("%s: a stride of %zu bytes leads out of memory", what, stride);
  return static_cast<ptrdiff_t>(stride);
}

}  // namespace

void say(const char* text) {
  size_t size = std::min(std::strlen(text), sizeof last_error - 1);
  std::memcpy(last_error, text, size);
  last_error[size] = 0;
}

void bad(palm_kits_status status, const char* format, ...) {
  va_list args;
  va_start(args, format);
  std::string text = text_of(format, args);
  va_end(args);
  throw Bad(status, std::move(text));
}

void refuse(const char* format, ...) {
  va_list args;
  va_start(args, format);
  std::string text = text_of(format, args);
  va_end(args);
  throw Bad(PALM_KITS_ERROR_ARGUMENT, std::move(text));
}

double between(double value, double least, double most, const char* what) {
  if (!(value >= least && value <= most))
    refuse("%s: expected a number from %g to %g, got %g", what, least, most, value);
  return value;
}

double above_zero(double value, const char* what) {
  if (!(value > 0 && std::isfinite(value)))
    refuse("%s: expected a number above 0, got %g", what, value);
  return value;
}

double finite(double value, const char* what) {
  if (!std::isfinite(value)) refuse("%s: expected a finite number, got %g", what, value);
  return value;
}

void all_finite(const float* values, size_t count, const char* what) {
  for (size_t i = 0; i < count; ++i) finite(values[i], what);
}

Pixels::Pixels(const palm_kits_image* image, const char* what) : view_{} {
  const palm_kits_image& from = *given(image, what);
  check_sides(from.width, from.height, kMostSide, what);
  const Layout at = layout_of(from.format);
  const size_t row = static_cast<size_t>(from.width) * static_cast<size_t>(at.step);
  const ptrdiff_t stride = stride_of(from.stride, row, from.height, what);
  given(from.pixels, what);
  if (from.rotation != 0 && from.rotation != 90 && from.rotation != 180 && from.rotation != 270)
    refuse("rotation: expected 0, 90, 180 or 270, got %d", from.rotation);
  if (from.is_mirrored != 0 && from.is_mirrored != 1)
    refuse("is_mirrored: expected 0 or 1, got %d", from.is_mirrored);
  view_ = {from.pixels, from.width, from.height, stride};
  if (from.format == PALM_KITS_RGB && !from.rotation && !from.is_mirrored) return;
  // The way in memory from an upright pixel to the next one, and to the next row.
  const bool is_turned = from.rotation % 180 != 0;
  const ptrdiff_t column = at.step, last_column = column * (from.width - 1);
  const ptrdiff_t last_row = stride * (from.height - 1);
  ptrdiff_t start = 0, across = is_turned ? stride : column, down = is_turned ? column : stride;
  if (from.rotation == 90 || from.rotation == 180)
    start += is_turned ? last_row : last_column, across = -across;
  if (from.rotation == 270 || from.rotation == 180)
    start += is_turned ? last_column : last_row, down = -down;
  kept_ = is_turned ? Picture(from.height, from.width) : Picture(from.width, from.height);
  if (from.is_mirrored) start += across * (kept_.width() - 1), across = -across;
  for (int y = 0; y < kept_.height(); ++y) {
    const uint8_t* pixel = from.pixels + start + y * down;
    uint8_t* to = kept_.row(y);
    for (int x = 0; x < kept_.width(); ++x, pixel += across, to += 3)
      to[0] = pixel[at.red], to[1] = pixel[at.green], to[2] = pixel[at.blue];
  }
  view_ = kept_;
}

Box clipped(const palm_kits_part* part, View image) {
  if (!part) return {0, 0, image.width, image.height};
  const double right = part->x + part->width, bottom = part->y + part->height;
  if (!(std::isfinite(part->x) && std::isfinite(part->y) && std::isfinite(right) &&
        std::isfinite(bottom) && part->width > 0 && part->height > 0)) {
    refuse("part: expected x, y, width, height with width and height above 0, got %g, %g, %g, %g",
           part->x, part->y, part->width, part->height);
  }
  const auto within = [](double at, int length) {
    return static_cast<int>(std::min(std::max(at, 0.0), static_cast<double>(length)));
  };
  const Box box{within(std::floor(part->x), image.width), within(std::floor(part->y), image.height),
                within(std::ceil(right), image.width), within(std::ceil(bottom), image.height)};
  if (box.left >= box.right || box.top >= box.bottom) {
    refuse("part: lies outside the picture of %dx%d pixels: %g, %g, %g, %g", image.width,
           image.height, part->x, part->y, part->width, part->height);
  }
  return box;
}

void check(const palm_kits_input* input) {
  given(input, "input");
  check_sides(input->width, input->height, kMostInput, "input");
  if (input->layout != PALM_KITS_NHWC && input->layout != PALM_KITS_NCHW)
    refuse("layout: expected 0 or 1, got %d", input->layout);
  all_finite(input->mean, 3, "mean"), all_finite(input->scale, 3, "scale");
  given(input->data, "input");
  const size_t size = 12 * static_cast<size_t>(input->width) * static_cast<size_t>(input->height);
  if (input->size < size)
    bad(PALM_KITS_ERROR_SHAPE, "input: expected %zu bytes, got %zu", size, input->size);
}

void put(View picture, const palm_kits_input& input) {
  const bool planes = input.layout == PALM_KITS_NCHW;
  const size_t plane = static_cast<size_t>(picture.width) * static_cast<size_t>(picture.height);
  for (size_t c = 0; c < 3; ++c) {
    float values[256];
    for (int i = 0; i < 256; ++i)
      values[i] = (static_cast<float>(i) - input.mean[c]) * input.scale[c];
    float* to = input.data + c * (planes ? plane : 1);
    for (int y = 0; y < picture.height; ++y) {
      const uint8_t* from = picture.row(y) + c;
      for (int x = 0; x < picture.width; ++x, from += 3, to += planes ? 1 : 3) *to = values[*from];
    }
  }
}

Crop crop_of(const palm_kits_crop* crop) {
  given(crop, "crop");
  const Crop made{finite(crop->x, "crop x"), finite(crop->y, "crop y"),
                  above_zero(crop->side, "crop side"), finite(crop->angle, "crop angle")};
  return made;
}

Similarity motion_of(const palm_kits_motion* motion) {
  if (!motion) return {};
  const Similarity made{{finite(motion->turn_x, "motion"), finite(motion->turn_y, "motion")},
                        {finite(motion->shift_x, "motion"), finite(motion->shift_y, "motion")}};
  const double zoom = std::abs(made.turn);
  if (!(zoom > 1e-3 && zoom < 1e3))
    refuse("motion: expected a zoom of 0.001 to 1000, got %g", zoom);
  return made;
}

Rows<float, 1> mask_of(const palm_kits_mask* mask, View image, const char* what) {
  given(mask, what);
  if (mask->width != image.width || mask->height != image.height) {
    refuse("%s: expected the size of the picture, %dx%d, got %dx%d", what, image.width,
           image.height, mask->width, mask->height);
  }
  if (mask->stride % sizeof(float))
    refuse("%s: expected a stride of whole numbers of 4 bytes, got %zu", what, mask->stride);
  const size_t row = sizeof(float) * static_cast<size_t>(mask->width);
  const ptrdiff_t stride = stride_of(mask->stride, row, mask->height, what);
  return {given(mask->data, what), mask->width, mask->height,
          stride / static_cast<ptrdiff_t>(sizeof(float))};
}

void put_count(palm_kits_list& list, size_t count, const char* what) {
  list.count = count;
  if (count > list.room)
    bad(PALM_KITS_ERROR_SHAPE, "%s: there are %zu, and room for %zu", what, count, list.room);
}

}  // namespace palm_kits

uint32_t palm_kits_version(void) { return PALM_KITS_VERSION; }

const char* palm_kits_error(void) { return palm_kits::last_error; }
