#include "warp.h"

#include <algorithm>
#include <type_traits>

namespace palm_kits {
namespace {

// Far beyond any picture; what is further, or no number, is taken to its edge.
constexpr float kFar = 1e6f;

float near_by(float x) { return x > -kFar ? std::min(x, kFar) : -kFar; }

// is_alone: beyond the edges is 0, and not what is at them.
template <class T, int C, bool is_alone = false>
void take(Rows<const T, C> x, float at_x, float at_y, T* to) {
  at_x = near_by(at_x), at_y = near_by(at_y);
  const int left = floored(at_x), top = floored(at_y);
  const float right = at_x - static_cast<float>(left), below = at_y - static_cast<float>(top);
  const int columns[2] = {C * clamped(left, 0, x.width - 1), C * clamped(left + 1, 0, x.width - 1)};
  const T* const upper = x.row(clamped(top, 0, x.height - 1));
  const T* const lower = x.row(clamped(top + 1, 0, x.height - 1));
  const auto is_in = [](int at, int length) { return !is_alone || (at >= 0 && at < length); };
  const bool has_left = is_in(left, x.width), has_right = is_in(left + 1, x.width);
  const bool has_upper = is_in(top, x.height), has_lower = is_in(top + 1, x.height);
  for (int c = 0; c < C; ++c) {
    const auto value_at = [&](const T* row, int column, bool is_there) {
      return is_there ? static_cast<float>(row[column + c]) : 0.f;
    };
    const float a = value_at(upper, columns[0], has_upper && has_left);
    const float b = value_at(upper, columns[1], has_upper && has_right);
    const float d = value_at(lower, columns[0], has_lower && has_left);
    const float e = value_at(lower, columns[1], has_lower && has_right);
    const float over = right * (b - a) + a, under = right * (e - d) + d;
    const float value = below * (under - over) + over;
    if constexpr (std::is_same_v<T, uint8_t>)
      to[c] = static_cast<uint8_t>(clamped(nearest(value), 0, 255));
    else to[c] = value;
  }
}

template <class T, int C, bool is_alone>
void through(Rows<const T, C> x, const Matrix& back, Rows<T, C> y) {
  // As OpenCV has it: all in float, products with columns exact until they are added.
  const double across = static_cast<float>(back.a), down = static_cast<float>(back.d);
  const auto b = static_cast<float>(back.b), c = static_cast<float>(back.c);
  const auto e = static_cast<float>(back.e), f = static_cast<float>(back.f);
  for (int row = 0; row < y.height; ++row) {
    const auto at_row = static_cast<float>(row);
    const float start_x = b * at_row + c, start_y = e * at_row + f;
    for (int column = 0; column < y.width; ++column) {
      const auto at_x = static_cast<float>(across * column + start_x);
      const auto at_y = static_cast<float>(down * column + start_y);
      take<T, C, is_alone>(x, at_x, at_y, y.row(row) + C * column);
    }
  }
}

}  // namespace

Matrix inverse(const Matrix& m) {
  const double scale = 1 / (m.a * m.e - m.b * m.d);
  const double a = m.e * scale, b = -m.b * scale, d = -m.d * scale, e = m.a * scale;
  return {a, b, -a * m.c - b * m.f, d, e, -d * m.c - e * m.f};
}

void warp(View x, const Matrix& back, Rows<uint8_t, 3> y) {
  through<uint8_t, 3, false>(x, back, y);
}

template <class T, int C>
void warp_alone(Rows<const T, C> x, const Matrix& back, Rows<T, C> y) {
  through<T, C, true>(x, back, y);
}

template void warp_alone(Rows<const uint8_t, 3>, const Matrix&, Rows<uint8_t, 3>);
template void warp_alone(Rows<const float, 1>, const Matrix&, Rows<float, 1>);

template <class T, int C>
void remap(Rows<const T, C> x, const Grid& grid, Rows<T, C> y) {
  for (int row = 0; row < y.height; ++row)
    for (int column = 0; column < y.width; ++column)
      take<T, C>(x, grid.x[static_cast<size_t>(column)], grid.y[static_cast<size_t>(row)],
                 y.row(row) + C * column);
}

template void remap(Rows<const uint8_t, 3>, const Grid&, Rows<uint8_t, 3>);
template void remap(Rows<const float, 1>, const Grid&, Rows<float, 1>);

}  // namespace palm_kits
