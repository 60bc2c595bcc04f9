#include "resize.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

namespace palm_kits {
namespace {

constexpr double kLeast =
    1.75;  // of `shrink`: what is so many times as long as the square is halved

// A share of a source pixel in a pixel of the result.
struct Share {
  int from, to;
  float weight;
};

// The shares of `length` pixels in `count` of them, by areas.
std::vector<Share> shares(int length, int count) {
  constexpr double kNothing = 1e-3;
  const double scale = static_cast<double>(length) / count;
  std::vector<Share> all;
  for (int to = 0; to < count; ++to) {
    const double begin = to * scale, end = begin + scale, cell = std::min(scale, length - begin);
    const int last = std::min(static_cast<int>(std::floor(end)), length - 1);
    const int first = std::min(static_cast<int>(std::ceil(begin)), last);
    const auto add = [&](int from, double part) {
      all.push_back({from, to, static_cast<float>(part / cell)});
    };
    if (first - begin > kNothing) add(first - 1, first - begin);
    for (int from = first; from < last; ++from) add(from, 1);
    if (end - last > kNothing) add(last, std::min(std::min(end - last, 1.0), cell));
  }
  return all;
}

template <class T>
T stored(float x) {
  if constexpr (std::is_same_v<T, uint8_t>)
    return static_cast<uint8_t>(clamped(nearest(x), 0, 255));
  else return x;
}

// Each pixel of the result is the mean of 2 x 2; of bytes a half is rounded up.
template <class T, int C>
void exact_halves(Rows<const T, C> x, Rows<T, C> y) {
  for (int row = 0; row < y.height; ++row) {
    const T *upper = x.row(2 * row), *lower = x.row(2 * row + 1);
    T* to = y.row(row);
    for (int column = 0; column < y.width; ++column, upper += 2 * C, lower += 2 * C, to += C) {
      for (int c = 0; c < C; ++c) {
        if constexpr (std::is_same_v<T, uint8_t>)
          to[c] = static_cast<uint8_t>((upper[c] + upper[c + C] + lower[c] + lower[c + C] + 2) / 4);
        else to[c] = ((upper[c] + upper[c + C]) + (lower[c] + lower[c + C])) * 0.25f;
      }
    }
  }
}

// Each pixel of the result is the mean of `across` x `down` whole ones.
template <class T, int C>
void whole_areas(Rows<const T, C> x, Rows<T, C> y, int across, int down) {
  using Sum = std::conditional_t<std::is_same_v<T, uint8_t>, int, float>;
  const float scale = 1.f / static_cast<float>(across * down);
  for (int row = 0; row < y.height; ++row) {
    for (int column = 0; column < y.width; ++column) {
      for (int c = 0; c < C; ++c) {
        Sum sum = 0;
        for (int dy = 0; dy < down; ++dy) {
          const T* const from = x.row(row * down + dy) + C * across * column + c;
          for (int dx = 0; dx < across; ++dx) sum += static_cast<Sum>(from[C * dx]);
        }
        y.row(row)[C * column + c] = stored<T>(static_cast<float>(sum) * scale);
      }
    }
  }
}

template <class T, int C>
void parted_areas(Rows<const T, C> x, Rows<T, C> y) {
  const std::vector<Share> columns = shares(x.width, y.width), rows = shares(x.height, y.height);
  std::vector<float> line(static_cast<size_t>(C) * static_cast<size_t>(y.width)), sum(line.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    const Share& share = rows[i];
    std::fill(line.begin(), line.end(), 0.f);
    const T* const from = x.row(share.from);
    for (const Share& each : columns)
      for (int c = 0; c < C; ++c)
        line[static_cast<size_t>(C * each.to + c)] +=
            static_cast<float>(from[C * each.from + c]) * each.weight;
    const bool is_first = !i || rows[i - 1].to != share.to;
    for (size_t k = 0; k < sum.size(); ++k)
      sum[k] = is_first ? share.weight * line[k] : sum[k] + share.weight * line[k];
    if (i + 1 < rows.size() && rows[i + 1].to == share.to) continue;
    T* const to = y.row(share.to);
    for (size_t k = 0; k < sum.size(); ++k) to[k] = stored<T>(sum[k]);
  }
}

// The two pixels that one of the result lies between.
struct Between {
  int first, second;
  float weight;  // of the second
};

// At: OpenCV counts in float for bytes, in double for floats.
template <class At>
std::vector<Between> places(int length, int count) {
  const double scale = 1 / (static_cast<double>(count) / length);
  std::vector<Between> all(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) {
    const At at = static_cast<At>((i + 0.5) * scale - 0.5);
    const int first = static_cast<int>(std::floor(at));
    Between& each = all[static_cast<size_t>(i)];
    each = {std::max(first, 0), std::min(first + 1, length - 1),
            static_cast<float>(at - static_cast<At>(first))};
    each.first = std::min(each.first, length - 1);
  }
  return all;
}

// Weights of 11 bits, as OpenCV has for bytes.
int coefficient(float weight) { return nearest(weight * 2048); }

template <int C>
void linear_bytes(Rows<const uint8_t, C> x, Rows<uint8_t, C> y, const std::vector<Between>& rows,
                  const std::vector<Between>& columns) {
  const size_t line = static_cast<size_t>(C) * static_cast<size_t>(y.width);
  std::vector<int> sums[2] = {std::vector<int>(line), std::vector<int>(line)};
  int held[2] = {-1, -1};
  const auto expand = [&](int from) -> const std::vector<int>& {
    const int slot = from & 1;
    if (held[slot] == from) return sums[slot];
    held[slot] = from;
    const uint8_t* const source = x.row(from);
    for (size_t i = 0; i < columns.size(); ++i) {
      const Between& at = columns[i];
      // Both are one at the edges, with all of the weight.
      const int a = coefficient(1.f - at.weight), b = coefficient(at.weight);
      for (int c = 0; c < C; ++c)
        sums[slot][static_cast<size_t>(C) * i + static_cast<size_t>(c)] =
            source[C * at.first + c] * a + source[C * at.second + c] * b;
    }
    return sums[slot];
  };
  for (int row = 0; row < y.height; ++row) {
    const Between& at = rows[static_cast<size_t>(row)];
    const int a = coefficient(1.f - at.weight), b = coefficient(at.weight);
    const std::vector<int>&upper = expand(at.first), &lower = expand(at.second);
    for (size_t i = 0; i < line; ++i) {
      const int sum = ((a * (upper[i] >> 4)) >> 16) + ((b * (lower[i] >> 4)) >> 16);
      y.row(row)[i] = static_cast<uint8_t>(clamped((sum + 2) >> 2, 0, 255));
    }
  }
}

template <int C>
void linear_floats(Rows<const float, C> x, Rows<float, C> y, const std::vector<Between>& rows,
                   const std::vector<Between>& columns) {
  for (int row = 0; row < y.height; ++row) {
    const Between& at = rows[static_cast<size_t>(row)];
    const float *upper = x.row(at.first), *lower = x.row(at.second);
    for (size_t i = 0; i < columns.size(); ++i) {
      const Between& to = columns[i];
      for (int c = 0; c < C; ++c) {
        const int first = C * to.first + c, second = C * to.second + c;
        const float a = upper[first] * (1.f - to.weight) + upper[second] * to.weight;
        const float b = lower[first] * (1.f - to.weight) + lower[second] * to.weight;
        y.row(row)[static_cast<size_t>(C) * i + static_cast<size_t>(c)] =
            a * (1.f - at.weight) + b * at.weight;
      }
    }
  }
}

bool is_same(View x, int width, int height) { return x.width == width && x.height == height; }

Picture by_areas(View x, int width, int height) {
  Picture y(width, height);
  resize_area<uint8_t, 3>(x, y.rows());
  return y;
}

Picture between(View x, int width, int height) {
  Picture y(width, height);
  resize_linear<uint8_t, 3>(x, y.rows());
  return y;
}

}  // namespace

int rounded(double x) { return static_cast<int>(std::nearbyint(x)); }

template <class T, int C>
void resize_area(Rows<const T, C> x, Rows<T, C> y) {
  const int across = x.width / y.width, down = x.height / y.height;
  if (across * y.width == x.width && down * y.height == x.height)
    return across == 2 && down == 2 ? exact_halves<T, C>(x, y)
                                    : whole_areas<T, C>(x, y, across, down);
  parted_areas<T, C>(x, y);
}

template <class T, int C>
void resize_linear(Rows<const T, C> x, Rows<T, C> y) {
  if (x.width == y.width && x.height == y.height) {
    for (int row = 0; row < y.height; ++row) std::copy_n(x.row(row), C * y.width, y.row(row));
    return;
  }
  // OpenCV takes means of 2 x 2 for exact halves.
  if (x.width == 2 * y.width && x.height == 2 * y.height) return resize_area<T, C>(x, y);
  using At = std::conditional_t<std::is_same_v<T, uint8_t>, float, double>;
  const auto rows = places<At>(x.height, y.height), columns = places<At>(x.width, y.width);
  if constexpr (std::is_same_v<T, uint8_t>) linear_bytes<C>(x, y, rows, columns);
  else linear_floats<C>(x, y, rows, columns);
}

template void resize_area(Rows<const uint8_t, 3>, Rows<uint8_t, 3>);
template void resize_area(Rows<const uint8_t, 1>, Rows<uint8_t, 1>);
template void resize_area(Rows<const float, 1>, Rows<float, 1>);
template void resize_linear(Rows<const uint8_t, 3>, Rows<uint8_t, 3>);
template void resize_linear(Rows<const float, 1>, Rows<float, 1>);
template void resize_linear(Rows<const float, 4>, Rows<float, 4>);

Picture resize(View x, int width, int height) {
  Picture kept;
  while (x.width >= 2 * width && x.height >= 2 * height && x.width % 2 == 0 && x.height % 2 == 0) {
    kept = by_areas(x, x.width / 2, x.height / 2);
    x = kept;
  }
  if (is_same(x, width, height)) return kept.size() ? kept : copied(x);
  const bool shrinks = height <= x.height && width <= x.width;
  return shrinks ? by_areas(x, width, height) : between(x, width, height);
}

Picture shrink(View x, int side) {
  const double least = kLeast * side;
  Picture kept;
  for (;;) {
    const int down = 1 + (x.height >= least && x.height % 2 == 0);
    const int across = 1 + (x.width >= least && x.width % 2 == 0);
    if (down == 1 && across == 1) break;
    kept = by_areas(x, x.width / across, x.height / down);
    x = kept;
  }
  if (std::max(x.width, x.height) >= least) return resize(x, side, side);
  return between(x, side, side);
}

}  // namespace palm_kits
