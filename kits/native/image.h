#pragma once
// Pictures, and planes of numbers such as masks, as the library holds them.
#include <cstddef>
#include <cstdint>
#include <vector>

namespace palm_kits {

// Rows of pixels of C values each, `stride` values apart, that somebody else owns.
template <class T, int C>
struct Rows {
  static constexpr int kChannels = C;
  T* data;
  int width, height;
  ptrdiff_t stride;

  T* row(int y) const { return data + y * stride; }
  Rows part(int left, int top, int right, int bottom) const {
    return {row(top) + ptrdiff_t{C} * left, right - left, bottom - top, stride};
  }
  operator Rows<const T, C>() const { return {data, width, height, stride}; }
};

// The same, dense, with its memory.
template <class T, int C>
class Dense {
 public:
  Dense() = default;
  Dense(int width, int height, T value = T{})
      : width_(width),
        height_(height),
        data_(static_cast<size_t>(width) * static_cast<size_t>(height) * C, value) {}

  int width() const { return width_; }
  int height() const { return height_; }
  size_t size() const { return data_.size(); }
  T* data() { return data_.data(); }
  const T* data() const { return data_.data(); }
  T* row(int y) { return data() + ptrdiff_t{C} * y * width_; }
  const T* row(int y) const { return data() + ptrdiff_t{C} * y * width_; }
  Rows<T, C> rows() { return {data(), width_, height_, ptrdiff_t{C} * width_}; }
  Rows<const T, C> rows() const { return {data(), width_, height_, ptrdiff_t{C} * width_}; }
  operator Rows<const T, C>() const { return rows(); }

 private:
  int width_ = 0, height_ = 0;
  std::vector<T> data_;
};

using View = Rows<const uint8_t, 3>;  // a picture, RGB
using Picture = Dense<uint8_t, 3>;
using MaskView = Rows<const float, 1>;
using Mask = Dense<float, 1>;
using BytesView = Rows<const uint8_t, 1>;
using Bytes = Dense<uint8_t, 1>;

// left, top, right, bottom in pixels.
struct Box {
  int left, top, right, bottom;
  int width() const { return right - left; }
  int height() const { return bottom - top; }
};

inline bool operator==(const Box& a, const Box& b) {
  return a.left == b.left && a.top == b.top && a.right == b.right && a.bottom == b.bottom;
}

// To the nearest whole number, halves to the even one.
int rounded(double x);
// The same of less than 4 million, in few instructions.
inline int nearest(float x) {
  constexpr float kShift = 12582912.f;
  return static_cast<int>((x + kShift) - kShift);
}
inline int floored(float x) {
  const int whole = static_cast<int>(x);
  return whole - (static_cast<float>(whole) > x);
}

inline int clamped(int x, int low, int high) { return x < low ? low : x > high ? high : x; }

template <class T, int C>
Dense<T, C> copied(Rows<const T, C> x) {
  Dense<T, C> y(x.width, x.height);
  for (int row = 0; row < x.height; ++row)
    for (int i = 0; i < C * x.width; ++i) y.row(row)[i] = x.row(row)[i];
  return y;
}

}  // namespace palm_kits
