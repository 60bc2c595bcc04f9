// Moves elements from a view to another of the same shape, whatever their type: transpose, slice,
// concat, pad, tile.
#include <algorithm>
#include <cstring>

#include "base/step.h"

namespace palm {
namespace {

struct Dim {
  size_t size;
  int64_t x, y;  // strides in elements
};

// n elements of type T, `x` and `y` being strides.
template <class T>
void move(size_t n, const T* from, int64_t x, T* to, int64_t y) {
  for (size_t i = 0; i < n; ++i, from += x, to += y) *to = *from;
}

// n runs of kCount elements from kCount arrays that are `apart` (all at 1 apart in `to`), or back.
template <int kCount, bool kInterleave, class T>
void move_few(size_t n, const T* __restrict from, T* __restrict to, size_t apart) {
  for (size_t i = 0; i < n; ++i) {
#pragma GCC unroll 4
    for (int k = 0; k < kCount; ++k) {
      if (kInterleave)
        to[i * kCount + static_cast<size_t>(k)] = from[static_cast<size_t>(k) * apart + i];
      else to[static_cast<size_t>(k) * apart + i] = from[i * kCount + static_cast<size_t>(k)];
    }
  }
}

// The same for any number of arrays that has a body; false if it has none.
template <bool kInterleave, class T>
bool move_few(size_t count, size_t n, const T* from, T* to, size_t apart) {
  if (count == 2) return move_few<2, kInterleave>(n, from, to, apart), true;
  if (count == 3) return move_few<3, kInterleave>(n, from, to, apart), true;
  if (count == 4) return move_few<4, kInterleave>(n, from, to, apart), true;
  return false;
}

// `rows` by `n` elements in squares that stay in L1, for a transpose.
constexpr size_t kSide = 16;
template <class T>
void move_squares(const Dim& rows, const Dim& columns, const T* from, T* to) {
  for (size_t i = 0; i < rows.size; i += kSide) {
    const size_t last = std::min(rows.size, i + kSide);
    for (size_t j = 0; j < columns.size; j += kSide) {
      const size_t n = std::min(kSide, columns.size - j);
      for (size_t r = i; r < last; ++r) {
        const int64_t row = static_cast<int64_t>(r), column = static_cast<int64_t>(j);
        move(n, from + row * rows.x + column * columns.x, columns.x,
             to + row * rows.y + column * columns.y, columns.y);
      }
    }
  }
}

class Copy : public Step {
 public:
  explicit Copy(const Node& node) {
    const Tensor &x = node.any_in(0), &y = node.any_out();
    item_ = size_of(x.dtype);
    if (x.dtype != y.dtype) fail(Fault::kModel, "%s into %s", x.text().c_str(), y.text().c_str());
    if (x.shape != y.shape) fail(Fault::kModel, "%s into %s", x.text().c_str(), y.text().c_str());
    if (y.count == 0) return;
    const Ints xs = x.all_strides(), ys = y.all_strides();
    for (size_t i = 0; i < y.rank(); ++i) add({y.shape[i], xs[i], ys[i]});
    while (dims_.size() < 2) dims_.insert(dims_.begin(), {1, 0, 0});
    if (dims_.back().x != 1 || dims_.back().y != 1) sink_contiguous_dims();
    outer_ = y.count / dims_.back().size / dims_[dims_.size() - 2].size;
  }

  void run(const Buffers& b) const override {
    if (outer_ == 0) return;
    const Dim &rows = dims_[dims_.size() - 2], &columns = dims_.back();
    const size_t strip = columns.x == 1 && columns.y == 1 ? 1 : kSide;
    const size_t strips = (rows.size + strip - 1) / strip;
    const Grain grain = grain_of(std::min(strip, rows.size) * columns.size * kWorkOfTouching);
    b.pool->parallel(outer_ * strips, grain, [&](size_t begin, size_t end, int) {
      while (begin < end) {
        const size_t first = begin % strips, last = std::min(strips, first + end - begin);
        const size_t row = first * strip, count = std::min(rows.size, last * strip) - row;
        if (item_ == 1) plane<uint8_t>(b, begin / strips, row, count);
        else if (item_ == 2) plane<uint16_t>(b, begin / strips, row, count);
        else if (item_ == 4) plane<uint32_t>(b, begin / strips, row, count);
        else plane<uint64_t>(b, begin / strips, row, count);
        begin += last - first;
      }
    });
  }

 private:
  // Dims of 1 left out, and neighbours that run on in both joined.
  void add(Dim dim) {
    if (dim.size == 1) return;
    if (!dims_.empty()) {
      Dim& last = dims_.back();
      const int64_t size = static_cast<int64_t>(dim.size);
      if (last.x == dim.x * size && last.y == dim.y * size) {
        last = {last.size * dim.size, dim.x, dim.y};
        return;
      }
    }
    dims_.push_back(dim);
  }

  // The two innermost dims become the one that is contiguous in x and the one contiguous in y, so
  // that their plane is a transpose.
  void sink_contiguous_dims() {
    const auto move_last = [&](auto is) {
      const auto found = std::find_if(dims_.begin(), dims_.end(), is);
      if (found == dims_.end()) return;
      const Dim last = *found;
      dims_.erase(found);
      dims_.push_back(last);
    };
    move_last([](const Dim& d) { return d.x == 1; });
    move_last([](const Dim& d) { return d.y == 1; });
  }

  // Rows [row, row + count) of a plane.
  template <class T>
  void plane(const Buffers& b, size_t index, size_t row, size_t count) const {
    const T* from = static_cast<const T*>(b.inputs[0]);
    T* to = static_cast<T*>(b.outputs[0]);
    for (size_t i = dims_.size() - 2; i-- > 0;) {
      const int64_t at = static_cast<int64_t>(index % dims_[i].size);
      index /= dims_[i].size;
      from += at * dims_[i].x;
      to += at * dims_[i].y;
    }
    const Dim& columns = dims_.back();
    Dim rows = dims_[dims_.size() - 2];
    from += static_cast<int64_t>(row) * rows.x;
    to += static_cast<int64_t>(row) * rows.y;
    rows.size = count;
    if (columns.x != 1 || columns.y != 1) {
      // Planes become pixels, or pixels planes.
      const bool transpose = rows.x == 1 && columns.y == 1 && rows.y > 0 && columns.x > 0;
      const auto apart_x = static_cast<size_t>(columns.x), apart_y = static_cast<size_t>(rows.y);
      const bool done =
          transpose &&
          ((apart_y == columns.size &&
            move_few<true>(columns.size, rows.size, from, to, apart_x)) ||
           (apart_x == rows.size && move_few<false>(rows.size, columns.size, from, to, apart_y)));
      return done ? void() : move_squares(rows, columns, from, to);
    }
    for (size_t r = 0; r < rows.size; ++r, from += rows.x, to += rows.y)
      std::memcpy(to, from, columns.size * sizeof(T));
  }

  size_t item_, outer_ = 0;
  std::vector<Dim> dims_;
};

}  // namespace

PALM_OPERANDS(copy, "x/strides", "y/strides")
StepPtr make_copy(const Node& node) { return std::make_unique<Copy>(node); }

}  // namespace palm
