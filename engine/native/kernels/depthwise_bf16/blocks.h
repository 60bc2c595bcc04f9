// Blocks of the output whose sums stay in registers. Taps: how a kernel's weights lie and meet the
// numbers of a column.
#pragma once
#include "base/simd.h"
#include "kernels/depthwise_bf16/depthwise_bf16.h"

namespace palm {
namespace {

constexpr size_t kColumns = 4;

// A place in the output: the first of some of all images' rows, where its windows begin in the
// input.
struct Place {
  const Bf16* image;
  size_t row, rows, column;
  ptrdiff_t y, x;
};

// A column of the input as a block reads it: n channels of each row from `offset` on, zeros where
// its mask leaves a row out.
struct Column {
  const Bf16* const* rows;
  const Mask* masks;
  size_t offset;
};

F32 first(const DepthwiseBf16& d, size_t c, size_t n) {
  const float* const bias = d.epilogue.plain.bias;
  return bias ? F32::load(bias + c, n) : F32::set(0.f);
}

F32 activate(const Epilogue& e, F32 v, size_t c, size_t n) {
  const F32 zero = F32::set(0.f);
  return e.slope ? fma(min(zero, v), F32::load(e.slope + c, n), max(zero, v))
                 : min(F32::set(e.high), max(F32::set(e.low), v));
}

// Ends the sums of channels [c, c + n) of a row's pixels from `out` on.
__attribute__((noinline)) void finish(const DepthwiseBf16& d, F32* sum, size_t out, size_t pixels,
                                      size_t c, size_t n) {
  const EpilogueBf16& e = d.epilogue;
  const size_t channels = e.residual_channels > c ? e.residual_channels - c : 0;
  const size_t added = channels < n ? channels : n;
  for (size_t i = 0; i < pixels; ++i) {
    if (added) {
      const EitherIn r = e.residual + ((out + i) * e.residual_stride + c);
      sum[i] = sum[i] + (r.is_narrow ? load(r.narrow(), added, sum) : F32::load(r.floats(), added));
    }
    sum[i] = activate(e.plain, sum[i], c, n);
  }
  if (e.plain.post)
    e.plain.post(e.plain.post_data, pixels, n, reinterpret_cast<float*>(sum), F32::lanes);
  for (size_t i = 0; i < pixels; ++i) {
    const EitherOut y = d.y + ((out + i) * d.y_pixel + c);
    if (y.is_narrow) store(sum[i], y.narrow(), n);
    else sum[i].store(y.floats(), n);
  }
}

// One pixel, any kernel.
template <class Taps>
void pixel(const DepthwiseBf16& d, const Place& at, size_t c, size_t n) {
  F32 sum = first(d, c, n);
  const Taps taps(d, c);
  for (size_t ky = 0; ky < d.kernel_height; ++ky) {
    // Above and to the left of the image these wrap round to large numbers.
    const size_t iy = static_cast<size_t>(at.y) + ky * d.dilation_y;
    for (size_t kx = 0; kx < d.kernel_width; ++kx) {
      const size_t ix = static_cast<size_t>(at.x) + kx * d.dilation_x;
      if (iy >= d.height || ix >= d.width) continue;
      const F32 in = load(at.image + (iy * d.width + ix) * d.x_pixel + c, n, &sum);
      sum = fma(in, taps.at(ky, kx), sum);
    }
  }
  finish(d, &sum, at.row * d.out_width + at.column, 1, c, n);
}

// kRows x kColumns pixels, of which the place's rows are kept.
template <class Taps, int kKernel, int kStride, int kRows>
void block(const DepthwiseBf16& d, const Place& at, size_t c, size_t n) {
  constexpr int kInRows = (kRows - 1) * kStride + kKernel;
  constexpr int kInColumns = (static_cast<int>(kColumns) - 1) * kStride + kKernel;
  const size_t row_numbers = d.width * d.x_pixel;
  const Taps taps(d, c);
  F32 sum[kRows][kColumns];
  const F32 start = first(d, c, n);
  PALM_UNROLL for (size_t y = 0; y < kRows; ++y) {
    PALM_UNROLL for (size_t x = 0; x < kColumns; ++x) { sum[y][x] = start; }
  }
  // A row outside of the image is read as zeros, from a row that is there.
  const Bf16* rows[kInRows];
  Mask masks[kInRows];
  PALM_UNROLL for (int iy = 0; iy < kInRows; ++iy) {
    const size_t row = static_cast<size_t>(at.y) + static_cast<size_t>(iy);
    const bool inside = row < d.height;
    rows[iy] = at.image + (inside ? row * row_numbers : 0) + c;
    masks[iy] = mask_of(inside ? n : 0);
  }
  PALM_UNROLL for (int ix = 0; ix < kInColumns; ++ix) {
    const size_t column = static_cast<size_t>(at.x) + static_cast<size_t>(ix);
    if (column >= d.width) continue;
    taps.template add<kKernel, kStride, kRows>({rows, masks, column * d.x_pixel}, ix, sum);
  }
  const EpilogueBf16& e = d.epilogue;
  const size_t out = at.row * d.out_width + at.column;
  if (!d.y.is_narrow || e.residual.data || e.plain.post || n != F32::lanes) {
    // A copy: GCC would keep what finish has the address of in memory all the time.
    F32 copy[kRows][kColumns];
    PALM_UNROLL for (size_t y = 0; y < kRows; ++y) {
      PALM_UNROLL for (size_t x = 0; x < kColumns; ++x) { copy[y][x] = sum[y][x]; }
    }
    for (size_t y = 0; y < at.rows; ++y)
      finish(d, copy[y], out + y * d.out_width, kColumns, c, n);
    return;
  }
  if (e.plain.slope) {
    const F32 zero = F32::set(0.f), slope = F32::load(e.plain.slope + c);
    PALM_UNROLL for (size_t y = 0; y < kRows; ++y) {
      PALM_UNROLL for (size_t x = 0; x < kColumns; ++x)
        sum[y][x] = fma(min(zero, sum[y][x]), slope, max(zero, sum[y][x]));
    }
  } else {
    const F32 low = F32::set(e.plain.low), high = F32::set(e.plain.high);
    PALM_UNROLL for (size_t y = 0; y < kRows; ++y) {
      PALM_UNROLL for (size_t x = 0; x < kColumns; ++x)
        sum[y][x] = min(high, max(low, sum[y][x]));
    }
  }
  Bf16* row = d.y.narrow() + out * d.y_pixel + c;
  PALM_UNROLL for (size_t y = 0; y < kRows; ++y, row += d.out_width * d.y_pixel) {
    if (y >= at.rows) break;
    Bf16* to = row;
    PALM_UNROLL for (size_t x = 0; x < kColumns; ++x, to += d.y_pixel) { store(sum[y][x], to); }
  }
}

// What makes up to so many rows and columns of the output.
struct Block {
  size_t rows, columns;
  void (*run)(const DepthwiseBf16& d, const Place& at, size_t c, size_t n);
};

template <class Taps, int kKernel>
Block block_of(size_t stride) {
  if (stride == 1) return {4, kColumns, block<Taps, kKernel, 1, 4>};
  return {2, kColumns, block<Taps, kKernel, 2, 2>};
}

template <class Taps>
Block find_block(const DepthwiseBf16& d) {
  const size_t kernel = d.kernel_height, stride = d.stride_y;
  const bool square =
      d.kernel_width == kernel && d.stride_x == stride && d.dilation_x == 1 && d.dilation_y == 1;
  if (square && stride <= 2 && d.out_width >= kColumns) {
    if (kernel == 3) return block_of<Taps, 3>(stride);
    if (kernel == 5) return block_of<Taps, 5>(stride);
  }
  return {1, 1, pixel<Taps>};
}

// Channels at a time, so that the rows of a window stay in L1 from one row of y to the next.
size_t channels_at_once(const DepthwiseBf16& d) {
  constexpr size_t kL1Numbers = 12 << 10;
  const size_t fit = kL1Numbers / ((d.width + 1) * (d.kernel_height + 3)) / F32::lanes * F32::lanes;
  return fit >= F32::lanes * 2 ? fit : d.channels;
}

// Rows [begin, end) of y. The last block across may begin before the one before it ends: the same
// sums again.
template <class Taps>
void run_blocks(const DepthwiseBf16& d, size_t begin, size_t end) {
  const Block block = find_block<Taps>(d);
  const size_t step = channels_at_once(d);
  for (size_t from = 0; from < d.channels; from += step) {
    const size_t to = d.channels - from < step ? d.channels : from + step;
    for (size_t row = begin; row < end;) {
      const size_t image = row / d.out_height, last = (image + 1) * d.out_height;
      const size_t left = (last < end ? last : end) - row;
      Place at{d.x + image * d.height * d.width * d.x_pixel, row, block.rows, 0, 0, 0};
      if (left < at.rows) at.rows = left;
      at.y = static_cast<ptrdiff_t>(row % d.out_height * d.stride_y) - d.top;
      for (size_t column = 0; column < d.out_width; column += block.columns) {
        at.column = d.out_width - column < block.columns ? d.out_width - block.columns : column;
        at.x = static_cast<ptrdiff_t>(at.column * d.stride_x) - d.left;
        for (size_t c = from; c < to; c += F32::lanes)
          block.run(d, at, c, to - c < F32::lanes ? to - c : F32::lanes);
      }
      row += at.rows;
    }
  }
}

}  // namespace
}  // namespace palm
