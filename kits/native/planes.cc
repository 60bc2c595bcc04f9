#include "planes.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace palm_kits {
namespace {

// Place i beyond the ends of `length`, mirrored at the first and the last.
int mirrored(int i, int length) {
  if (length == 1) return 0;
  while (i < 0 || i >= length) i = i < 0 ? -i : 2 * (length - 1) - i;
  return i;
}

template <class Sum, class T, int C, class Store>
void means(Rows<const T, C> x, int side, Rows<T, C> y, Store store) {
  const int reach = side / 2, line = C * x.width;
  std::vector<Sum> sums(static_cast<size_t>(line));
  for (int row = 0; row < x.height; ++row) {
    std::fill(sums.begin(), sums.end(), Sum{});
    for (int dy = -reach; dy <= reach; ++dy) {
      const T* const from = x.row(mirrored(row + dy, x.height));
      for (int i = 0; i < line; ++i) sums[static_cast<size_t>(i)] += from[i];
    }
    for (int column = 0; column < x.width; ++column) {
      for (int c = 0; c < C; ++c) {
        Sum sum{};
        for (int dx = -reach; dx <= reach; ++dx)
          sum += sums[static_cast<size_t>(C * mirrored(column + dx, x.width) + c)];
        y.row(row)[C * column + c] = store(sum);
      }
    }
  }
}

template <class Choose>
Bytes chosen(BytesView x, const std::vector<Offset>& shape, uint8_t start, Choose choose) {
  Bytes y(x.width, x.height);
  for (int row = 0; row < x.height; ++row) {
    for (int column = 0; column < x.width; ++column) {
      uint8_t value = start;
      for (const Offset& each : shape) {
        const int at_x = column + each.x, at_y = row + each.y;
        if (at_x >= 0 && at_x < x.width && at_y >= 0 && at_y < x.height)
          value = choose(value, x.row(at_y)[at_x]);
      }
      y.row(row)[column] = value;
    }
  }
  return y;
}

}  // namespace

Mask blur(MaskView x, int side) {
  Mask y(x.width, x.height);
  const double scale = 1.0 / (side * side);
  means<double, float, 1>(x, side, y.rows(),
                          [&](double sum) { return static_cast<float>(sum * scale); });
  return y;
}

Picture blur(View x, int side) {
  Picture y(x.width, x.height);
  const float scale = 1.f / static_cast<float>(side * side);
  means<int, uint8_t, 3>(x, side, y.rows(), [&](int sum) {
    return static_cast<uint8_t>(rounded(static_cast<float>(sum) * scale));
  });
  return y;
}

void smooth(MaskView x, Rows<float, 1> y) {
  std::vector<float> line(static_cast<size_t>(x.width));
  const auto mean = [](float before, float at, float after) {
    return at * 0.5f + (before + after) * 0.25f;
  };
  Mask rows(x.width, x.height);
  for (int row = 0; row < x.height; ++row) {
    const float* const from = x.row(row);
    for (int i = 0; i < x.width; ++i)
      rows.row(row)[i] =
          mean(from[mirrored(i - 1, x.width)], from[i], from[mirrored(i + 1, x.width)]);
  }
  for (int row = 0; row < x.height; ++row) {
    const float *before = rows.row(mirrored(row - 1, x.height)), *at = rows.row(row),
                *after = rows.row(mirrored(row + 1, x.height));
    for (int i = 0; i < x.width; ++i) y.row(row)[i] = mean(before[i], at[i], after[i]);
  }
}

Bytes above(MaskView x, float level) {
  Bytes y(x.width, x.height);
  for (int row = 0; row < x.height; ++row)
    for (int i = 0; i < x.width; ++i) y.row(row)[i] = x.row(row)[i] > level;
  return y;
}

Box bounds(BytesView x) {
  Box box{x.width, x.height, 0, 0};
  for (int row = 0; row < x.height; ++row) {
    for (int i = 0; i < x.width; ++i) {
      if (!x.row(row)[i]) continue;
      box.left = std::min(box.left, i), box.right = std::max(box.right, i + 1);
      box.top = std::min(box.top, row), box.bottom = row + 1;
    }
  }
  return box.right ? box : Box{0, 0, 0, 0};
}

Bytes largest(BytesView x, const std::vector<Offset>& shape) {
  return chosen(x, shape, 0, [](uint8_t a, uint8_t b) { return std::max(a, b); });
}

Bytes smallest(BytesView x, const std::vector<Offset>& shape) {
  return chosen(x, shape, 255, [](uint8_t a, uint8_t b) { return std::min(a, b); });
}

std::vector<Offset> square(int side) {
  std::vector<Offset> shape;
  for (int y = -(side / 2); y <= side / 2; ++y)
    for (int x = -(side / 2); x <= side / 2; ++x) shape.push_back({x, y});
  return shape;
}

std::vector<Offset> disc(int side) {
  std::vector<Offset> shape;
  const int r = side / 2;
  for (int y = -r; y <= r; ++y) {
    const int reach = rounded(std::sqrt(static_cast<double>(r * r - y * y)));
    for (int x = -reach; x <= reach; ++x) shape.push_back({x, y});
  }
  return shape;
}

Parts connected(BytesView x) {
  Parts parts;
  parts.labels.assign(static_cast<size_t>(x.width) * static_cast<size_t>(x.height), 0);
  parts.areas.assign(1, 0);
  std::vector<int> open;
  const auto label = [&](int at) -> int& { return parts.labels[static_cast<size_t>(at)]; };
  for (int start = 0; start < x.width * x.height; ++start) {
    if (label(start) || !x.row(start / x.width)[start % x.width]) continue;
    const int own = static_cast<int>(parts.areas.size());
    parts.areas.push_back(0);
    open.assign(1, start), label(start) = own;
    while (!open.empty()) {
      const int at = open.back(), row = at / x.width, column = at % x.width;
      open.pop_back();
      ++parts.areas.back();
      for (int y = std::max(row - 1, 0); y <= std::min(row + 1, x.height - 1); ++y) {
        for (int i = std::max(column - 1, 0); i <= std::min(column + 1, x.width - 1); ++i) {
          const int next = y * x.width + i;
          if (!label(next) && x.row(y)[i]) label(next) = own, open.push_back(next);
        }
      }
    }
  }
  parts.count = static_cast<int>(parts.areas.size());
  parts.areas[0] = x.width * x.height - std::accumulate(parts.areas.begin(), parts.areas.end(), 0);
  return parts;
}

}  // namespace palm_kits
