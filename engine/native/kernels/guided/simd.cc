#include "base/simd.h"

#include "kernels/guided/guided.h"

namespace palm {
namespace {

// The loops are as compilers make vectors of.
inline float mix(const Between& lines, size_t i) {
  const float upper = lines.upper[i];
  return upper + lines.weight * (lines.lower[i] - upper);
}

inline float within(float x) {
  const float least = x > 0.f ? x : 0.f;
  return least < 1.f ? least : 1.f;
}

void plain(const GuidedRow& d) {
  const Between offset = d.offset;
  float* __restrict const y = d.y;
  for (size_t i = 0; i < d.n; ++i) y[i] = within(mix(offset, i));
}

void of_brightness(const GuidedRow& d) {
  const Between offset = d.offset, slope = d.slopes[0];
  const uint8_t* const pixels = d.pixels;
  float* __restrict const y = d.y;
  for (size_t i = 0; i < d.n; ++i) {
    const int32_t sum = pixels[3 * i] * 9798 + pixels[3 * i + 1] * 19235 + pixels[3 * i + 2] * 3735;
    const float brightness = static_cast<float>((sum + (1 << 14)) >> 15);
    y[i] = within(mix(offset, i) + mix(slope, i) * brightness);
  }
}

void of_colours(const GuidedRow& d) {
  const Between offset = d.offset, red = d.slopes[0], green = d.slopes[1], blue = d.slopes[2];
  const uint8_t* const pixels = d.pixels;
  float* __restrict const y = d.y;
  for (size_t i = 0; i < d.n; ++i) {
    const float sum = mix(red, i) * static_cast<float>(pixels[3 * i]) +
                      mix(green, i) * static_cast<float>(pixels[3 * i + 1]) +
                      mix(blue, i) * static_cast<float>(pixels[3 * i + 2]);
    y[i] = within(mix(offset, i) + sum);
  }
}

}  // namespace

void PALM_FN(guided_expand_f32)(const float* x, const Places& places, float* y) {
  constexpr auto kLanes = static_cast<int32_t>(F32::lanes);
  const Places d = places;
  const auto step = static_cast<int32_t>(d.step), last = static_cast<int32_t>(d.length) - kLanes;
  const auto one = [&](size_t i) {
    const float* const at = x + d.from[i];
    y[i] = at[0] + d.weight[i] * (at[step] - at[0]);
  };
  size_t i = 0;
  for (; i + F32::lanes <= d.n; i += F32::lanes) {
    const int32_t first = d.from[i] < last ? d.from[i] : last;
    // What a vector is made of lies in one, unless there is less of it or the grid is finer.
    if (first < 0 || d.from[i + F32::lanes - 1] + step - first >= kLanes) {
      for (size_t k = i; k < i + F32::lanes; ++k) one(k);
      continue;
    }
    const F32 a = F32::pick(x + first, d.from + i, first);
    const F32 b = F32::pick(x + first, d.from + i, first - step);
    fma(F32::load(d.weight + i), b - a, a).store(y + i);
  }
  for (; i < d.n; ++i) one(i);
}

void PALM_FN(guided_row_f32)(const GuidedRow& row) {
  if (row.planes == 0) return plain(row);
  if (row.planes == 1) return of_brightness(row);
  of_colours(row);
}

}  // namespace palm
