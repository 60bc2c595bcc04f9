// Two rows of x at a time are one vector of pairs, and two taps of a column one vector of weights:
// half the multiplications. The last tap of an odd number meets pairs whose second is zero, so that
// a number outside of the window never counts, be it infinite.
#include "base/simd.h"
#include "kernels/depthwise_bf16/depthwise_bf16.h"

namespace palm {
namespace {

using Pair = Pairs<F32>;

constexpr size_t kColumns = 4;

// A place in the output: a row of all images' rows, where its windows begin in the input.
struct Place {
  const Bf16* image;
  size_t row, column;
  ptrdiff_t y, x;
};

// The weights of channels from c on: for ky = 0, 2 ... and each kx the taps ky and ky + 1 of each
// channel, or a zero where there is no such tap.
const Bf16* weights(const DepthwiseBf16& d, size_t c) {
  return d.weights + c * ((d.kernel_height + 1) / 2 * 2 * d.kernel_width);
}

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
    const EitherOut y = d.y + ((out + i) * d.channels + c);
    if (y.is_narrow) store(sum[i], y.narrow(), n);
    else sum[i].store(y.floats(), n);
  }
}

// One pixel, any kernel.
void pixel(const DepthwiseBf16& d, const Place& at, size_t c, size_t n) {
  F32 sum = first(d, c, n);
  const Bf16* const w = weights(d, c);
  for (size_t ky = 0; ky < d.kernel_height; ++ky) {
    // Above and to the left of the image these wrap round to large numbers.
    const size_t iy = static_cast<size_t>(at.y) + ky * d.dilation_y;
    for (size_t kx = 0; kx < d.kernel_width; ++kx) {
      const size_t ix = static_cast<size_t>(at.x) + kx * d.dilation_x;
      if (iy >= d.height || ix >= d.width) continue;
      const Pair taps = Pair::load(w + (ky / 2 * d.kernel_width + kx) * F32::lanes * 2);
      const F32 in = load(at.image + (iy * d.width + ix) * d.channels + c, n, &sum);
      sum = fma(in, ky % 2 ? second_of(taps) : first_of(taps), sum);
    }
  }
  finish(d, &sum, at.row * d.out_width + at.column, 1, c, n);
}

// kRows x kColumns pixels.
template <int kKernel, int kStride, int kRows>
void block(const DepthwiseBf16& d, const Place& at, size_t c, size_t n) {
  constexpr int kInRows = (kRows - 1) * kStride + kKernel;
  constexpr int kInColumns = (static_cast<int>(kColumns) - 1) * kStride + kKernel;
  const size_t channels = d.channels, row_numbers = d.width * channels;
  const Bf16* const w = weights(d, c);
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
    const size_t offset = column * channels;
    Pair above = Pair::firsts(rows[0] + offset, masks[0]);
    PALM_UNROLL for (int iy = 0; iy < kInRows; ++iy) {
      const Pair below =
          iy + 1 < kInRows ? Pair::firsts(rows[iy + 1] + offset, masks[iy + 1]) : above;
      const Pair both = join(above, below);
      PALM_UNROLL for (int y = 0; y < kRows; ++y) {
        const int ky = iy - y * kStride;
        if (ky < 0 || ky >= kKernel || ky % 2) continue;
        PALM_UNROLL for (int x = 0; x < static_cast<int>(kColumns); ++x) {
          const int kx = ix - x * kStride;
          if (kx < 0 || kx >= kKernel) continue;
          const size_t tap = static_cast<size_t>(ky / 2 * kKernel + kx);
          const Pair taps = Pair::load(w + tap * F32::lanes * 2);
          sum[y][x] = dot(ky == kKernel - 1 ? above : both, taps, sum[y][x]);
        }
      }
      above = below;
    }
  }
  const EpilogueBf16& e = d.epilogue;
  const size_t out = at.row * d.out_width + at.column;
  if (!d.y.is_narrow || e.residual.data || e.plain.post || n != F32::lanes) {
    // A copy: GCC would keep what finish has the address of in memory all the time.
    F32 copy[kRows][kColumns];
    PALM_UNROLL for (size_t y = 0; y < kRows; ++y) {
      PALM_UNROLL for (size_t x = 0; x < kColumns; ++x) { copy[y][x] = sum[y][x]; }
    }
    for (size_t y = 0; y < kRows; ++y) finish(d, copy[y], out + y * d.out_width, kColumns, c, n);
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
  Bf16* row = d.y.narrow() + out * channels + c;
  PALM_UNROLL for (size_t y = 0; y < kRows; ++y, row += d.out_width * channels) {
    Bf16* to = row;
    PALM_UNROLL for (size_t x = 0; x < kColumns; ++x, to += channels) { store(sum[y][x], to); }
  }
}

using Tile = void (*)(const DepthwiseBf16& d, const Place& at, size_t c, size_t n);

// Tiles by rows, best first; those after the first are of one row.
struct Tiles {
  size_t rows, columns;
  Tile many, one;
};

template <int kKernel>
Tiles blocks_of(size_t stride) {
  if (stride == 1) return {4, kColumns, block<kKernel, 1, 4>, block<kKernel, 1, 1>};
  return {2, kColumns, block<kKernel, 2, 2>, block<kKernel, 2, 1>};
}

Tiles find_tiles(const DepthwiseBf16& d) {
  const size_t kernel = d.kernel_height, stride = d.stride_y;
  const bool square =
      d.kernel_width == kernel && d.stride_x == stride && d.dilation_x == 1 && d.dilation_y == 1;
  if (square && stride <= 2 && d.out_width >= kColumns) {
    if (kernel == 3) return blocks_of<3>(stride);
    if (kernel == 5) return blocks_of<5>(stride);
  }
  return {1, 1, pixel, pixel};
}

// Channels at a time, so that the rows of a window stay in L1 from one row of y to the next.
size_t channels_at_once(const DepthwiseBf16& d) {
  constexpr size_t kL1Numbers = 12 << 10;
  const size_t fit = kL1Numbers / ((d.width + 1) * (d.kernel_height + 3)) / F32::lanes * F32::lanes;
  return fit >= F32::lanes * 2 ? fit : d.channels;
}

}  // namespace

// The last tile across and down may begin before the one before it ends: the same sums again.
void PALM_FN(depthwise_bf16)(const DepthwiseBf16& d, size_t begin, size_t end) {
  const Tiles tiles = find_tiles(d);
  const size_t step = channels_at_once(d);
  for (size_t from = 0; from < d.channels; from += step) {
    const size_t to = d.channels - from < step ? d.channels : from + step;
    for (size_t row = begin; row < end;) {
      const size_t image = row / d.out_height, last = (image + 1) * d.out_height;
      const size_t stop = last < end ? last : end;
      size_t rows = tiles.rows;
      if (stop - row < rows) {
        // Back to rows of this call and this image, where there are as many.
        const size_t least = image * d.out_height > begin ? image * d.out_height : begin;
        if (stop - least >= rows) row = stop - rows;
        else rows = 1;
      }
      const Tile tile = rows == tiles.rows ? tiles.many : tiles.one;
      Place at{d.x + image * d.height * d.width * d.channels, row, 0, 0, 0};
      at.y = static_cast<ptrdiff_t>(row % d.out_height * d.stride_y) - d.top;
      for (size_t column = 0; column < d.out_width; column += tiles.columns) {
        at.column = d.out_width - column < tiles.columns ? d.out_width - tiles.columns : column;
        at.x = static_cast<ptrdiff_t>(at.column * d.stride_x) - d.left;
        for (size_t c = from; c < to; c += F32::lanes)
          tile(d, at, c, to - c < F32::lanes ? to - c : F32::lanes);
      }
      row += rows;
    }
  }
}

size_t PALM_SUFFIX(pack_depthwise_bf16, PALM_ISA_NAME)(size_t channels, size_t kernel_height,
                                                       size_t kernel_width, const float* weights,
                                                       Bf16* packed) {
  const size_t taps = kernel_height * kernel_width;
  size_t i = 0;
  for (size_t block = 0; block < channels; block += F32::lanes) {
    for (size_t pair = 0; pair < (kernel_height + 1) / 2; ++pair) {
      for (size_t kx = 0; kx < kernel_width; ++kx) {
        for (size_t j = 0; packed && j < F32::lanes * 2; ++j) {
          const size_t c = block + j / 2, ky = pair * 2 + j % 2;
          const bool is_tap = c < channels && ky < kernel_height;
          packed[i + Pair::place(j / 2, j % 2)] =
              narrow(is_tap ? weights[c * taps + ky * kernel_width + kx] : 0.f);
        }
        i += F32::lanes * 2;
      }
    }
  }
  return i;
}

}  // namespace palm
