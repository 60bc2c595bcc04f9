#pragma once
// Pictures and masks in other sizes, as cv2.resize makes them.
#include "image.h"

namespace palm_kits {

// By pixel areas; it may not grow.
template <class T, int C>
void resize_area(Rows<const T, C> x, Rows<T, C> y);
// Between pixels, which are 2 x 2 even where it shrinks; edges are repeated.
template <class T, int C>
void resize_linear(Rows<const T, C> x, Rows<T, C> y);

// By pixel areas where it shrinks, between pixels where it grows, halved exactly while that goes.
Picture resize(View x, int width, int height);
// A picture as a square for a network of masks: halved exactly while it is far too large.
Picture shrink(View x, int side);
// In half as many rows and columns, rounded up, by areas.
template <class T, int C>
Dense<T, C> half(Rows<const T, C> x) {
  Dense<T, C> y((x.width + 1) / 2, (x.height + 1) / 2);
  resize_area<T, C>(x, y.rows());
  return y;
}

}  // namespace palm_kits
