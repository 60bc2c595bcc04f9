// 3x3 and 5x5 kernels go in blocks of rows and columns whose sums stay in registers, the others in
// strips of one row. Padding is neither copied nor read: a block at the edge leaves its taps out.
#include "base/simd.h"

#include "kernels/depthwise/depthwise.h"

namespace palm {
namespace {

// Blocks are for instruction sets worth their code.
constexpr bool kHasBlocks = F32::lanes > 4 || F32::registers == 32;
constexpr size_t kMostRows = F32::registers == 32 ? 4 : 2, kMostColumns = 4;

// A whole vector, or the first n lanes of the narrowest.
template <class Vector, bool kMasked>
struct Part {
  using V = Vector;
  static V load(const float* p, size_t n) {
    if constexpr (kMasked) return V::load(p, n);
    else return V::load(p);
  }
  static void store(V v, float* p, size_t n) {
    if constexpr (kMasked) v.store(p, n);
    else v.store(p);
  }
};

// A place in the output: a row of all images' rows, where its windows begin in the input, and which
// channels are to be made.
struct Place {
  const float* image;
  size_t row, column;
  ptrdiff_t y, x;
  size_t begin, end;
};

// Calls f(Part, c, n) for each vector of the place's channels.
template <class Function>
void each_vector(const Place& at, Function f) {
  size_t c = at.begin;
  for (; c + F32::lanes <= at.end; c += F32::lanes) f(Part<F32, false>(), c, F32::lanes);
  for (; c < at.end; c += F32Half::lanes)
    f(Part<F32Half, true>(), c, at.end - c < F32Half::lanes ? at.end - c : F32Half::lanes);
}

// The weights of channels from c on: taps are F32::lanes apart.
const float* weights(const Depthwise& d, size_t c) {
  return d.weights + c / F32::lanes * F32::lanes * d.kernel_height * d.kernel_width +
         c % F32::lanes;
}

// Ends the sums of channels [c, c + n) of kRows x kColumns pixels, `out` being the first; residual
// and slope are left to end_rows.
template <class P, int kRows, int kColumns>
PALM_INLINE void finish(const Depthwise& d, typename P::V (&sum)[kRows][kColumns], size_t out,
                        size_t c, size_t n) {
  using V = typename P::V;
  const size_t columns = d.out_width, channels = d.channels;
  const V low = V::set(d.epilogue.low), high = V::set(d.epilogue.high);
  float* row = d.y + out * channels + c;
  PALM_UNROLL for (size_t y = 0; y < kRows; ++y, row += columns * channels) {
    float* p = row;
    PALM_UNROLL for (size_t x = 0; x < kColumns; ++x, p += channels)
      P::store(min(high, max(low, sum[y][x])), p, n);
  }
}

// What finish has left out, for channels [begin, end) of `pixels` pixels from `out` on.
void end_rows(const Depthwise& d, size_t out, size_t pixels, size_t begin, size_t end) {
  const Epilogue& e = d.epilogue;
  const F32 zero = F32::set(0.f);
  for (size_t i = out; i < out + pixels; ++i) {
    float* const y = d.y + i * d.channels;
    for (size_t c = begin; c < end; c += F32::lanes) {
      const size_t n = end - c < F32::lanes ? end - c : F32::lanes;
      F32 v = F32::load(y + c, n);
      if (e.residual && e.residual_channels > c) {
        const size_t rest = e.residual_channels - c;
        v = v + F32::load(e.residual + i * e.residual_stride + c, rest < n ? rest : n);
      }
      v = e.slope ? fma(min(zero, v), F32::load(e.slope + c, n), max(zero, v))
                  : min(F32::set(e.high), max(F32::set(e.low), v));
      v.store(y + c, n);
    }
  }
}

template <class P>
typename P::V first(const Depthwise& d, size_t c, size_t n) {
  return d.epilogue.bias ? P::load(d.epilogue.bias + c, n) : P::V::set(0.f);
}

// kColumns pixels of one row, any kernel.
template <class P, int kColumns>
void strip(const Depthwise& d, const Place& at, size_t c, size_t n) {
  using V = typename P::V;
  V sum[1][kColumns];
  const V start = first<P>(d, c, n);
  PALM_UNROLL for (int i = 0; i < kColumns; ++i) { sum[0][i] = start; }
  const float* w = weights(d, c);
  for (size_t ky = 0; ky < d.kernel_height; ++ky) {
    // Above and to the left of the image these wrap round to large numbers.
    const size_t iy = static_cast<size_t>(at.y) + ky * d.dilation_y;
    if (iy >= d.height) {
      w += d.kernel_width * F32::lanes;
      continue;
    }
    const float* const row = at.image + iy * d.width * d.channels + c;
    for (size_t kx = 0; kx < d.kernel_width; ++kx, w += F32::lanes) {
      const V weight = V::load(w);
      size_t ix = static_cast<size_t>(at.x) + kx * d.dilation_x;
      PALM_UNROLL for (int i = 0; i < kColumns; ++i, ix += d.stride_x)
        if (ix < d.width) sum[0][i] = fma(P::load(row + ix * d.channels, n), weight, sum[0][i]);
    }
  }
  finish<P>(d, sum, at.row * d.out_width + at.column, c, n);
}

// kRows x kColumns pixels; their windows lie within the image if not kEdge.
template <class P, int kKernel, int kStride, int kRows, int kColumns, bool kEdge>
PALM_INLINE void block(const Depthwise& d, const Place& at, size_t c, size_t n) {
  using V = typename P::V;
  constexpr int kInRows = (kRows - 1) * kStride + kKernel;
  constexpr int kInColumns = (kColumns - 1) * kStride + kKernel;
  const size_t channels = d.channels, row_floats = d.width * channels;
  const float* w = weights(d, c);
  V sum[kRows][kColumns];
  const V start = first<P>(d, c, n);
  PALM_UNROLL for (int y = 0; y < kRows; ++y) {
    PALM_UNROLL for (int x = 0; x < kColumns; ++x) { sum[y][x] = start; }
  }
  // As integers: at an edge the first row or column may lie outside of the image.
  const size_t y0 = static_cast<size_t>(at.y), x0 = static_cast<size_t>(at.x);
  const size_t height = d.height, width = d.width;
  const auto image = reinterpret_cast<uintptr_t>(at.image + c);
  uintptr_t row = image + (y0 * row_floats + x0 * channels) * sizeof(float);
  PALM_UNROLL for (int iy = 0; iy < kInRows; ++iy, row += row_floats * sizeof(float)) {
    if (kEdge && y0 + static_cast<size_t>(iy) >= height) continue;
    uintptr_t p = row;
    if constexpr (kEdge) {
      PALM_UNROLL for (int ix = 0; ix < kInColumns; ++ix, p += channels * sizeof(float)) {
        PALM_PIN(p);
        if (x0 + static_cast<size_t>(ix) >= width) continue;
        V in = P::load(reinterpret_cast<const float*>(p), n);
        PALM_PIN_VECTOR(in.v);
        PALM_UNROLL for (int y = 0; y < kRows; ++y) {
          PALM_UNROLL for (int x = 0; x < kColumns; ++x) {
            const int ky = iy - y * kStride, kx = ix - x * kStride;
            if (ky < 0 || ky >= kKernel || kx < 0 || kx >= kKernel) continue;
            const V weight = V::load(w + static_cast<size_t>(ky * kKernel + kx) * F32::lanes);
            sum[y][x] = fma(in, weight, sum[y][x]);
          }
        }
      }
    } else {
      // The row stays in registers, and each weight is loaded once for it.
      PALM_PIN(w);
      V in[kInColumns];
      PALM_UNROLL for (int ix = 0; ix < kInColumns; ++ix, p += channels * sizeof(float)) {
        PALM_PIN(p);
        in[ix] = P::load(reinterpret_cast<const float*>(p), n);
        PALM_PIN_VECTOR(in[ix].v);
      }
      PALM_UNROLL for (int y = 0; y < kRows; ++y) {
        const int ky = iy - y * kStride;
        if (ky < 0 || ky >= kKernel) continue;
        PALM_UNROLL for (int kx = 0; kx < kKernel; ++kx) {
          V weight = V::load(w + static_cast<size_t>(ky * kKernel + kx) * F32::lanes);
          PALM_PIN_VECTOR(weight.v);
          PALM_UNROLL for (int x = 0; x < kColumns; ++x)
            sum[y][x] = fma(in[x * kStride + kx], weight, sum[y][x]);
        }
      }
    }
  }
  finish<P>(d, sum, at.row * d.out_width + at.column, c, n);
}

template <int kColumns>
void run_strip(const Depthwise& d, const Place& at) {
  each_vector(at,
              [&](auto part, size_t c, size_t n) { strip<decltype(part), kColumns>(d, at, c, n); });
}

template <int kKernel, int kStride, int kRows, int kColumns, bool kEdge>
void run_block(const Depthwise& d, const Place& at) {
  each_vector(at, [&](auto part, size_t c, size_t n) {
    block<decltype(part), kKernel, kStride, kRows, kColumns, kEdge>(d, at, c, n);
  });
}

using Tile = void (*)(const Depthwise& d, const Place& at);

// Tiles of one number of rows, by columns - 1: at an edge, and inside.
struct Tiles {
  Tile edge[kMostColumns], inside[kMostColumns];
};

template <int kKernel, int kStride, int kRows>
constexpr Tiles kBlocks = {
    {nullptr, run_block<kKernel, kStride, kRows, 2, true>,
     run_block<kKernel, kStride, kRows, 3, true>, run_block<kKernel, kStride, kRows, 4, true>},
    {nullptr, run_block<kKernel, kStride, kRows, 2, true>,
     run_block<kKernel, kStride, kRows, 3, kRows == 1>,
     run_block<kKernel, kStride, kRows, 4, kRows == 1>}};

constexpr Tiles kStrips = {{run_strip<1>, run_strip<2>, run_strip<3>, run_strip<4>},
                           {run_strip<1>, run_strip<2>, run_strip<3>, run_strip<4>}};

template <int kKernel, int kStride>
const Tiles& blocks_of(size_t rows) {
  if constexpr (kStride == 1 && kMostRows == 4)
    if (rows == 4) return kBlocks<kKernel, kStride, 4>;
  return rows == 2 ? kBlocks<kKernel, kStride, 2> : kBlocks<kKernel, kStride, 1>;
}

// The tiles for as many rows as there are for this kernel, `most` at most.
const Tiles& find_tiles(const Depthwise& d, size_t most, size_t* rows) {
  if constexpr (kHasBlocks) {
    const size_t kernel = d.kernel_height, stride = d.stride_y;
    const bool square =
        d.kernel_width == kernel && d.stride_x == stride && d.dilation_x == 1 && d.dilation_y == 1;
    if (square && (kernel == 3 || kernel == 5) && stride <= 2 && d.out_width > 1) {
      *rows = most >= kMostRows && stride == 1 ? kMostRows : most >= 2 ? 2 : 1;
      if (kernel == 3) return stride == 1 ? blocks_of<3, 1>(*rows) : blocks_of<3, 2>(*rows);
      return stride == 1 ? blocks_of<5, 1>(*rows) : blocks_of<5, 2>(*rows);
    }
  }
  (void)d, (void)most;
  *rows = 1;
  return kStrips;
}

// `rows` rows from at.row on.
void run_rows(const Depthwise& d, Place at, size_t rows, const Tiles& by_columns) {
  const size_t tiles = (d.out_width + kMostColumns - 1) / kMostColumns;
  const size_t reach = (d.kernel_width - 1) * d.dilation_x;
  const size_t last_row =
      static_cast<size_t>(at.y) + (rows - 1) * d.stride_y + (d.kernel_height - 1) * d.dilation_y;
  const bool edge_rows = at.y < 0 || last_row >= d.height;
  for (size_t t = 0; t < tiles; ++t) {
    const size_t begin = d.out_width * t / tiles, columns = d.out_width * (t + 1) / tiles - begin;
    at.column = begin;
    at.x = static_cast<ptrdiff_t>(begin * d.stride_x) - d.left;
    const size_t last = static_cast<size_t>(at.x) + (columns - 1) * d.stride_x + reach;
    const bool edge = edge_rows || at.x < 0 || last >= d.width;
    (edge ? by_columns.edge : by_columns.inside)[columns - 1](d, at);
  }
}

// Channels at a time, so that the rows of a window stay in L1 from one row of y to the next.
size_t channels_at_once(const Depthwise& d) {
  constexpr size_t kL1Floats = 6 << 10;
  const size_t fit = kL1Floats / ((d.width + 1) * (d.kernel_height + 3)) / F32::lanes * F32::lanes;
  return fit >= F32::lanes * 2 ? fit : d.channels;
}

}  // namespace

void PALM_FN(depthwise_f32)(const Depthwise& all, size_t begin, size_t end) {
  Depthwise d = all;
  const Epilogue& e = all.epilogue;
  const bool plain = !e.residual && !e.slope;
  if (!plain) d.epilogue.low = -__builtin_inff(), d.epilogue.high = __builtin_inff();
  const size_t step = channels_at_once(d);
  for (size_t c = 0; c < d.channels; c += step) {
    for (size_t row = begin; row < end;) {
      const size_t image = row / d.out_height, oy = row % d.out_height;
      Place at{d.x + image * d.height * d.width * d.channels, row, 0, 0, 0, c, d.channels};
      if (at.end - c > step) at.end = c + step;
      at.y = static_cast<ptrdiff_t>(oy * d.stride_y) - d.top;
      const size_t left = d.out_height - oy < end - row ? d.out_height - oy : end - row;
      size_t rows;
      const Tiles& tiles = find_tiles(d, left, &rows);
      run_rows(d, at, rows, tiles);
      const size_t out = row * d.out_width, pixels = rows * d.out_width;
      if (!plain) end_rows(all, out, pixels, at.begin, at.end);
      if (e.post) {
        e.post(e.post_data, pixels, at.end - at.begin, d.y + out * d.channels + at.begin,
               d.channels);
      }
      row += rows;
    }
  }
}

// Blocks of a vector's channels: [channels / lanes][taps][lanes].
size_t PALM_SUFFIX(pack_depthwise_f32, PALM_ISA_NAME)(size_t channels, size_t taps,
                                                      const float* weights, float* packed) {
  const size_t blocks = (channels + F32::lanes - 1) / F32::lanes;
  for (size_t i = 0; packed && i < blocks * taps * F32::lanes; ++i) {
    const size_t c = i / (taps * F32::lanes) * F32::lanes + i % F32::lanes;
    packed[i] = c < channels ? weights[c * taps + i / F32::lanes % taps] : 0.f;
  }
  return blocks * taps * F32::lanes;
}

}  // namespace palm
