// 3x3 and 5x5 kernels go in blocks of rows and columns whose sums stay in registers, the others in
// strips of one row. Padding is neither copied nor read: a block at the edge leaves its taps out.
#include "base/simd.h"

#include "base/needs.h"
#include "kernels/depthwise/depthwise.h"

namespace palm {
namespace {

constexpr int kBlockRows = F32::registers == 32 ? 4 : 2, kColumns = 4;

// A whole vector, or the first n lanes of the narrowest.
template <class Vector, bool kMasked>
struct Part {
  using V = Vector;
  static constexpr bool kIsMasked = kMasked;
  static V load(const float* p, size_t n) {
    if constexpr (kMasked) return V::load(p, n);
    else return V::load(p);
  }
  static void store(V v, float* p, size_t n) {
    if constexpr (kMasked) v.store(p, n);
    else v.store(p);
  }
};

// Up to kBlockRows x kColumns pixels of the output: a row of all images' rows, where the first
// window begins in the input, and which channels are to be made.
struct Place {
  const float* image;
  size_t row, column;
  ptrdiff_t y, x;
  size_t rows, columns;
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

// Ends the sums of channels [c, c + n) of the place's pixels; residual and slope are left to
// end_rows.
template <class P, int kRows>
PALM_INLINE void finish(const Depthwise& d, const Place& at, typename P::V (&sum)[kRows][kColumns],
                        size_t c, size_t n) {
  using V = typename P::V;
  const size_t pixel = d.y_pixel, line = d.out_width * pixel;
  const size_t rows = at.rows, columns = at.columns;
  const V low = V::set(d.epilogue.low), high = V::set(d.epilogue.high);
  float* row = d.y + (at.row * d.out_width + at.column) * pixel + c;
  PALM_UNROLL for (size_t y = 0; y < kRows; ++y, row += line) {
    if (y >= rows) break;
    float* p = row;
    PALM_UNROLL for (size_t x = 0; x < kColumns; ++x, p += pixel) {
      if (x < columns) P::store(min(high, max(low, sum[y][x])), p, n);
    }
  }
}

// What finish has left out, for channels [begin, end) of `pixels` pixels from `out` on.
void end_rows(const Depthwise& d, size_t out, size_t pixels, size_t begin, size_t end) {
  const Epilogue& e = d.epilogue;
  const F32 zero = F32::set(0.f);
  for (size_t i = out; i < out + pixels; ++i) {
    float* const y = d.y + i * d.y_pixel;
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

// One row, any kernel.
template <class P>
PALM_INLINE void strip(const Depthwise& d, const Place& at, size_t c, size_t n) {
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
    const float* const row = at.image + iy * d.width * d.x_pixel + c;
    for (size_t kx = 0; kx < d.kernel_width; ++kx, w += F32::lanes) {
      const V weight = V::load(w);
      size_t ix = static_cast<size_t>(at.x) + kx * d.dilation_x;
      PALM_UNROLL for (int i = 0; i < kColumns; ++i, ix += d.stride_x)
        if (ix < d.width) sum[0][i] = fma(P::load(row + ix * d.x_pixel, n), weight, sum[0][i]);
    }
  }
  finish<P>(d, at, sum, c, n);
}

// A kernel kKernel wide; the windows lie between the left and the right side of the image if not
// kEdge.
template <class P, int kKernel, int kStride, bool kEdge>
PALM_INLINE void block(const Depthwise& d, const Place& at, size_t c, size_t n) {
  using V = typename P::V;
  constexpr int kInColumns = (kColumns - 1) * kStride + kKernel;
  const size_t pixel = d.x_pixel * sizeof(float), line = d.width * pixel;
  const size_t height = d.height, width = d.width, rows = at.rows;
  // As integers: at an edge the first row or column may lie outside of the image.
  const size_t x0 = static_cast<size_t>(at.x);
  size_t y0 = static_cast<size_t>(at.y);
  uintptr_t corner = reinterpret_cast<uintptr_t>(at.image + c) + y0 * line + x0 * pixel;
  V sum[kBlockRows][kColumns];
  const V start = first<P>(d, c, n);
  PALM_UNROLL for (int y = 0; y < kBlockRows; ++y) {
    PALM_UNROLL for (int x = 0; x < kColumns; ++x) { sum[y][x] = start; }
  }
  const float* w = weights(d, c);
  const float* const end = w + d.kernel_height * kKernel * F32::lanes;
  do {
    // One row of the kernel stays in registers for all rows of y.
    V weight[kKernel];
    PALM_UNROLL for (int kx = 0; kx < kKernel; ++kx) {
      weight[kx] = V::load(w + static_cast<size_t>(kx) * F32::lanes);
      PALM_PIN_VECTOR(weight[kx].v);
    }
    uintptr_t row = corner;
    PALM_UNROLL for (size_t y = 0; y < kBlockRows; ++y, row += line * kStride) {
      if (y0 + y * kStride >= height || y >= rows) continue;
      uintptr_t p = row;
      PALM_UNROLL for (int ix = 0; ix < kInColumns; ++ix, p += pixel) {
        PALM_PIN(p);
        if (kEdge && x0 + static_cast<size_t>(ix) >= width) continue;
        V in = P::load(reinterpret_cast<const float*>(p), n);
        PALM_PIN_VECTOR(in.v);
        PALM_UNROLL for (int x = 0; x < kColumns; ++x) {
          const int kx = ix - x * kStride;
          if (kx >= 0 && kx < kKernel) sum[y][x] = fma(in, weight[kx], sum[y][x]);
        }
      }
    }
    w += kKernel * F32::lanes;
    corner += line;
    ++y0;
  } while (w != end);
  finish<P>(d, at, sum, c, n);
}

void run_strips(const Depthwise& d, const Place& at) {
  each_vector(at, [&](auto part, size_t c, size_t n) { strip<decltype(part)>(d, at, c, n); });
}

// The rows of a place one by one, of its last channels, which are no whole vector.
[[maybe_unused]] __attribute__((noinline)) void run_last(const Depthwise& d, Place at, size_t c,
                                                         size_t n) {
  const size_t end = at.row + at.rows;
  for (at.rows = 1; at.row < end; ++at.row, at.y += static_cast<ptrdiff_t>(d.stride_y))
    strip<Part<F32Half, true>>(d, at, c, n);
}

template <int kKernel, int kStride, bool kEdge>
void run_blocks(const Depthwise& d, const Place& at) {
  each_vector(at, [&](auto part, size_t c, size_t n) {
    // Blocks of their own would be as much code again.
    if constexpr (kIsSmall && decltype(part)::kIsMasked) run_last(d, at, c, n);
    else block<decltype(part), kKernel, kStride, kEdge>(d, at, c, n);
  });
}

// What makes the pixels of a place of up to `rows` rows: where windows reach beyond the left or the
// right side, and inside.
struct Tile {
  using Run = void (*)(const Depthwise& d, const Place& at);
  Run edge, inside;
  size_t rows;
};

template <int kKernel, int kStride>
constexpr Tile kBlock = {run_blocks<kKernel, kStride, true>,
                         run_blocks<kKernel, kStride, kIsSmall>, kBlockRows};

constexpr Tile kStrip = {run_strips, run_strips, 1};

// Kernels of kKernel; the strips where they are not needed.
template <int kKernel>
Tile block_of(size_t stride) {
  if constexpr (needs_depthwise(kKernel, 1))
    if (stride == 1) return kBlock<kKernel, 1>;
  if constexpr (needs_depthwise(kKernel, 2))
    if (stride == 2) return kBlock<kKernel, 2>;
  (void)stride;
  return kStrip;
}

Tile find_tile(const Depthwise& d) {
  if constexpr (kHasVectors) {
    const size_t kernel = d.kernel_width, stride = d.stride_y;
    if (d.stride_x == stride && d.dilation_x == 1 && d.dilation_y == 1) {
      if (kernel == 3) return block_of<3>(stride);
      if (kernel == 5) return block_of<5>(stride);
    }
  }
  (void)d;
  return kStrip;
}

// All columns of the rows from at.row on.
void run_rows(const Depthwise& d, Place at, const Tile& tile) {
  const size_t reach = (d.kernel_width - 1) * d.dilation_x + (kColumns - 1) * d.stride_x;
  for (at.column = 0; at.column < d.out_width; at.column += kColumns) {
    const size_t left = d.out_width - at.column;
    at.columns = left < kColumns ? left : kColumns;
    at.x = static_cast<ptrdiff_t>(at.column * d.stride_x) - d.left;
    const bool edge = at.x < 0 || left < kColumns || static_cast<size_t>(at.x) + reach >= d.width;
    (edge ? tile.edge : tile.inside)(d, at);
  }
}

// Channels at a time, so that the rows of a window stay in L1 from one row of y to the next.
size_t channels_at_once(const Depthwise& d, size_t rows) {
  constexpr size_t kL1Floats = 6 << 10;
  const size_t in_rows = d.kernel_height + (rows - 1) * d.stride_y;
  const size_t fit = kL1Floats / ((d.width + 1) * in_rows) / F32::lanes * F32::lanes;
  return fit >= F32::lanes * 2 ? fit : d.channels;
}

}  // namespace

void PALM_FN(depthwise_f32)(const Depthwise& all, size_t begin, size_t end, size_t first,
                            size_t last) {
  Depthwise d = all;
  const Epilogue& e = all.epilogue;
  const bool plain = !e.residual && !e.slope;
  if (!plain) d.epilogue.low = -__builtin_inff(), d.epilogue.high = __builtin_inff();
  const Tile tile = find_tile(d);
  const size_t step = channels_at_once(d, tile.rows);
  for (size_t c = first; c < last; c += step) {
    for (size_t row = begin; row < end;) {
      const size_t image = row / d.out_height, oy = row % d.out_height;
      const size_t left = d.out_height - oy < end - row ? d.out_height - oy : end - row;
      Place at{};
      at.image = d.x + image * d.height * d.width * d.x_pixel;
      at.row = row;
      at.y = static_cast<ptrdiff_t>(oy * d.stride_y) - d.top;
      at.rows = left < tile.rows ? left : tile.rows;
      at.begin = c;
      at.end = last - c > step ? c + step : last;
      run_rows(d, at, tile);
      const size_t out = row * d.out_width, pixels = at.rows * d.out_width;
      if (!plain) end_rows(all, out, pixels, at.begin, at.end);
      if (e.post) {
        e.post(e.post_data, pixels, at.end - at.begin, d.y + out * d.y_pixel + at.begin,
               d.y_pixel);
      }
      row += at.rows;
    }
  }
}

// Blocks of a vector's channels: [channels / lanes][taps][lanes].
size_t PALM_SUFFIX(pack_depthwise_f32, PALM_ISA_NAME)(size_t channels, size_t taps,
                                                      const float* weights, float* packed) {
  const size_t blocks = (channels + F32::lanes - 1) / F32::lanes;
  for (size_t block = 0; packed && block < blocks; ++block) {
    for (size_t tap = 0; tap < taps; ++tap) {
      for (size_t lane = 0; lane < F32::lanes; ++lane) {
        const size_t c = block * F32::lanes + lane;
        *packed++ = c < channels ? weights[c * taps + tap] : 0.f;
      }
    }
  }
  return blocks * taps * F32::lanes;
}

}  // namespace palm
