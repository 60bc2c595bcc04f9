#pragma once
// What OpenCV does to masks and small pictures: means of neighbours, and connected parts.
#include "image.h"

namespace palm_kits {

// The mean of `side` x `side` values round each, an odd number; edges are mirrored.
Mask blur(MaskView x, int side);
Picture blur(View x, int side);
// A Gaussian of 3 x 3: 1, 2, 1 each way.
void smooth(MaskView x, Rows<float, 1> y);

// 1 where x is above `level`.
Bytes above(MaskView x, float level);
// Left, top, right, bottom of what is not 0; all 0 where there is nothing.
Box bounds(BytesView x);
// The largest and the smallest of the neighbours that `shape` names, outside of which is nothing.
struct Offset {
  int x, y;
};
Bytes largest(BytesView x, const std::vector<Offset>& shape);
Bytes smallest(BytesView x, const std::vector<Offset>& shape);
std::vector<Offset> square(int side);
std::vector<Offset> disc(int side);

// The parts of what is not 0, which neighbours at sides and corners connect: 1 and on, 0 the rest.
struct Parts {
  int count;  // with the rest
  std::vector<int> labels, areas;
};
Parts connected(BytesView x);

}  // namespace palm_kits
