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

// The coefficients of Guided by Bayesian matting (Chuang, Curless, Salesin and Szeliski, 2001) with
// one colour a side and the opacity as the only unknown: round each place the two sides have mean
// colours, weighted by how certain a side is, and where between them a pixel's colour lies says
// how much of it is of the first.
struct GuidedFit {
  Rows<const float> prior;      // 0..1: how much is of the first side
  Rows<const float> colours[3]; // of the same size
  size_t planes;                // 1..3
  float reach;                  // of the neighbourhood: a Gaussian's sigma, edges mirrored
  float weight;                 // of a pixel's colour beside the prior
  Rows<float> y[4];             // a slope for each plane, then what the prior loses
};

void guided_fit(uint32_t isa, const GuidedFit& fit);

// A row of a fit, in lines of `line` numbers, which whole vectors fill. sums: of the two
// certainties, then of each plane times the first, and times the second.
struct FitRow {
  size_t line, planes;
  float weight;
  const float* given;  // the prior, the planes
  float* sums;
  float* y;  // as in GuidedFit
};

struct GuidedFns {
  void (*expand)(const float* x, const Places& places, float* y);
  void (*row)(const GuidedRow& row);
  void (*weigh)(const FitRow& row);  // writes the sums of single pixels
  // y[i] = sum of weights[k] * x[k][i]
  void (*sum)(size_t line, size_t count, const float* const* x, const float* weights, float* y);
  void (*solve)(const FitRow& row);  // writes y by the sums of neighbourhoods
};

#define PALM_KERNEL(need, isa)                                                           \
  void guided_expand_f32_##isa(const float* x, const Places& places, float* y);          \
  void guided_row_f32_##isa(const GuidedRow& row);                                       \
  void guided_weigh_f32_##isa(const FitRow& row);                                        \
  void guided_sum_f32_##isa(size_t line, size_t count, const float* const* x,            \
                            const float* weights, float* y);                             \
  void guided_solve_f32_##isa(const FitRow& row);
#include "kernels/guided/kernels.inc"
#undef PALM_KERNEL

GuidedFns find_guided(uint32_t isa);

}  // namespace palm
