#pragma once
// Pictures seen through a matrix or a grid of places, between pixels, edges repeated.
#include "image.h"

namespace palm_kits {

// a x + b y + c, d x + e y + f.
struct Matrix {
  double a, b, c, d, e, f;
};

Matrix inverse(const Matrix& m);

// y shows at (column, row) what x has at `back` of it, whole numbers at the middles of pixels.
void warp(View x, const Matrix& back, Rows<uint8_t, 3> y);
// The same, with 0 beyond the edges.
template <class T, int C>
void warp_alone(Rows<const T, C> x, const Matrix& back, Rows<T, C> y);

// The places of columns and rows of `view` in a grid of another view of one picture.
struct Grid {
  std::vector<float> x, y;
};
// y shows what x has there.
template <class T, int C>
void remap(Rows<const T, C> x, const Grid& grid, Rows<T, C> y);

}  // namespace palm_kits
