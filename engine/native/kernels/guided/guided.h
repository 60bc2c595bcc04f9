#pragma once
#include <cstddef>
#include <cstdint>

#include "base/cpu.h"

namespace palm {

// Rows of float or uint8 with a distance between them, in elements.
template <class T>
struct Rows {
  T* data;
  size_t height, width, stride;
  T* row(size_t y) const { return data + y * stride; }
};

// The last step of a fast guided filter (He and Sun, 2015): every pixel of a large picture is a
// linear function of its colour, whose coefficients are known on a small grid and enlarged
// bilinearly, pixel centres half a pixel in, edges repeated.
//   y = offset + sum of slopes[k] * colour[k], from 0 to 1
// slopes: one, of the brightness that ITU-R BT.601 has, rounded; or three, of red, green and blue.
// Where slopes are 0 the picture is not read.
struct Guided {
  Rows<const float> offset;
  Rows<const float> slopes[3];  // of one size
  size_t planes;                // 1 or 3
  Rows<const uint8_t> image;    // width: in pixels, of three bytes
  Rows<float> y;                // as large as the picture, at least one pixel
};

void guided_upsample(uint32_t isa, const Guided& guided);

// Where each of n places lies between `from[i]`, which grows, and the one `step` behind it, among
// `length` of them.
struct Places {
  size_t n, length;
  const int32_t* from;
  size_t step;
  const float* weight;
};

// Two lines of coefficients, and how far from the first to the second.
struct Between {
  const float *upper, *lower;
  float weight;
};

struct GuidedRow {
  size_t n;
  Between offset;
  Between slopes[3];
  size_t planes;  // 0: the offset alone
  const uint8_t* pixels;
  float* y;
};

struct GuidedFns {
  void (*expand)(const float* x, const Places& places, float* y);
  void (*row)(const GuidedRow& row);
};

#define PALM_KERNEL(need, expand, row)                         \
  void expand(const float* x, const Places& places, float* y); \
  void row(const GuidedRow& row);
#include "kernels/guided/kernels.inc"
#undef PALM_KERNEL

GuidedFns find_guided(uint32_t isa);

}  // namespace palm
