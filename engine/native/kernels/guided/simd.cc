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

void PALM_FN(guided_weigh_f32)(const FitRow& d) {
  const F32 zero = F32::set(0.f), one = F32::set(1.f), uncertain = F32::set(1e-4f);
  for (size_t i = 0; i < d.line; i += F32::lanes) {
    const F32 prior = F32::load(d.given + i), lead = prior + prior - one, ahead = max(zero, lead);
    const F32 first = fma(ahead, ahead, uncertain);
    const F32 second = fma(ahead - lead, ahead - lead, uncertain);
    float* to = d.sums + i;
    first.store(to), second.store(to += d.line);
    for (size_t k = 1; k <= d.planes; ++k) {
      const F32 value = F32::load(d.given + k * d.line + i);
      (value * first).store(to + k * d.line);
      (value * second).store(to + (d.planes + k) * d.line);
    }
  }
}

void PALM_FN(guided_sum_f32)(size_t line, size_t count, const float* const* x,
                             const float* weights, float* y) {
  for (size_t i = 0; i < line; i += F32::lanes) {
    F32 sum = F32::set(0.f);
    for (size_t k = 0; k < count; ++k) sum = fma(F32::load(x[k] + i), F32::set(weights[k]), sum);
    sum.store(y + i);
  }
}

void PALM_FN(guided_solve_f32)(const FitRow& d) {
  const F32 zero = F32::set(0.f), one = F32::set(1.f), nothing = F32::set(1e-4f);
  for (size_t i = 0; i < d.line; i += F32::lanes) {
    const float* const means = d.sums + d.line + i;
    // Of certainties, which are 1e-4 and more: one division is enough.
    const F32 mine = F32::load(means - d.line), other = F32::load(means);
    const F32 both = one / (mine * other), first = other * both, second = mine * both;
    float* const y = d.y + i;
    F32 length = zero;
    for (size_t k = 1; k <= d.planes; ++k) {
      const F32 ours = F32::load(means + k * d.line) * first;
      const F32 towards = ours - F32::load(means + (d.planes + k) * d.line) * second;
      towards.store(y + (k - 1) * d.line);
      length = fma(towards, towards, length);
    }
    const F32 prior = F32::load(d.given + i);
    const F32 heard = F32::set(4.f * d.weight) * (prior - prior * prior) * length;
    // Next to nothing is nothing: the picture is not read there.
    const F32 said = less(nothing, heard, heard, zero), least = length + F32::set(1e-6f);
    const F32 scale = said / ((said + one) * least);
    F32 offset = scale * least * prior;
    for (size_t k = 1; k <= d.planes; ++k) {
      const F32 slope = F32::load(y + (k - 1) * d.line) * scale;
      const F32 theirs = F32::load(means + (d.planes + k) * d.line) * second;
      offset = fma(slope, theirs, offset);
      slope.store(y + (k - 1) * d.line);
    }
    offset.store(y + d.planes * d.line);
  }
}

}  // namespace palm
