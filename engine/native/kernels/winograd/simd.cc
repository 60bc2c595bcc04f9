#include "base/simd.h"

#include "kernels/winograd/basis.h"
#include "kernels/winograd/winograd.h"

namespace palm {
namespace {

F32 fma(F32 a, double b, F32 c) { return fma(a, F32::set(static_cast<float>(b)), c); }
F32 mul(F32 a, double b) { return a * F32::set(static_cast<float>(b)); }

// Values of x in the other basis: at +-p, at 0 and at infinity.
template <class B, int kPair>
PALM_INLINE void at_pair(const F32* d, F32* plus, F32* minus) {
  constexpr int kLast = B::kPairs - 1;
  constexpr const double (&others)[B::kPairs] = B::kNumbers.others[kPair];
  constexpr double p = B::kNumbers.point[kPair];
  F32 a = d[2 * kLast + B::kZero + 1], b = mul(d[2 * kLast + B::kZero], p);
  PALM_UNROLL for (int i = kLast - 1; i >= 0; --i) {
    a = fma(d[2 * i + B::kZero + 1], others[i], a);
    b = fma(d[2 * i + B::kZero], others[i] * p, b);
  }
  *plus = a + b;
  *minus = a - b;
}

template <class B>
PALM_INLINE F32 of_all(const F32* d) {
  F32 a = d[2 * B::kPairs];
  PALM_UNROLL for (int i = B::kPairs - 1; i >= 0; --i) { a = fma(d[2 * i], B::kNumbers.all[i], a); }
  return a;
}
template <class B>
PALM_INLINE F32 at_zero(const F32* d) {
  return of_all<B>(d);
}
template <class B>
PALM_INLINE F32 at_infinity(const F32* d) {
  return of_all<B>(d + B::kZero);
}

template <class B>
PALM_INLINE void to_basis(const F32* d, F32* values) {
  at_pair<B, 0>(d, values, values + 1);
  if constexpr (B::kPairs > 1) at_pair<B, 1>(d, values + 2, values + 3);
  if constexpr (B::kPairs > 2) at_pair<B, 2>(d, values + 4, values + 5);
  if constexpr (B::kZero) values[B::kPatch - 2] = at_zero<B>(d);
  values[B::kPatch - 1] = at_infinity<B>(d);
}

// Outputs kFirst, kFirst + 2 ... of a tile from its products.
template <class B, int kFirst>
PALM_INLINE void from_basis(const F32* m, F32* y) {
  F32 sum[B::kPairs];
  PALM_UNROLL for (int k = 0; k < B::kPairs; ++k) {
    sum[k] = kFirst ? m[2 * k] - m[2 * k + 1] : m[2 * k] + m[2 * k + 1];
  }
  PALM_UNROLL for (int i = kFirst; i < B::kTile; i += 2) {
    F32 v = i ? mul(sum[0], B::kNumbers.power[0][i]) : sum[0];
    if (i == 0 && B::kZero) v = v + m[B::kPatch - 2];
    if (i == B::kTile - 1) v = i ? fma(sum[0], B::kNumbers.power[0][i], m[B::kPatch - 1]) : v;
    PALM_UNROLL for (int k = 1; k < B::kPairs; ++k) {
      v = i ? fma(sum[k], B::kNumbers.power[k][i], v) : v + sum[k];
    }
    y[i] = v;
  }
}

struct Place {
  size_t image, y, x;  // in tiles
};

Place place_of(const Winograd& w, size_t tile) {
  return {tile / w.tiles_across / w.tiles_down, tile / w.tiles_across % w.tiles_down,
          tile % w.tiles_across};
}

// Whether a part of a vector is loaded as fast as a whole one. Elsewhere the last vector of a pixel
// begins earlier instead.
constexpr bool kMasks = F32::lanes > 8;

F32 load_masked(const float* p, size_t n) { return kMasks ? F32::load(p, n) : F32::load(p); }

// The columns of a patch in the other basis that pair kPair makes, and with the first pair the one
// at 0, with the second the one at infinity: as many as registers hold.
template <class B, int kPair>
PALM_INLINE void gather_columns(const float* const (&from)[B::kPatch][B::kPatch], size_t c,
                                size_t n, float* to, size_t plane) {
  constexpr bool kZero = B::kZero && kPair == 0;
  constexpr bool kInfinity = kPair == (B::kPairs > 1 ? 1 : 0);
  constexpr int kColumns = 2 + kZero + kInfinity;
  F32 columns[kColumns][B::kPatch];
  PALM_UNROLL for (int i = 0; i < B::kPatch; ++i) {
    F32 d[B::kPatch];
    PALM_UNROLL for (int j = 0; j < B::kPatch; ++j) { d[j] = load_masked(from[i][j] + c, n); }
    at_pair<B, kPair>(d, &columns[0][i], &columns[1][i]);
    if constexpr (kZero) columns[2][i] = at_zero<B>(d);
    if constexpr (kInfinity) columns[2 + kZero][i] = at_infinity<B>(d);
  }
  PALM_UNROLL for (int k = 0; k < kColumns; ++k) {
    const int j = k < 2 ? 2 * kPair + k : kZero && k == 2 ? B::kPatch - 2 : B::kPatch - 1;
    F32 values[B::kPatch];
    to_basis<B>(columns[k], values);
    PALM_UNROLL for (int i = 0; i < B::kPatch; ++i)
      values[i].store(to + static_cast<size_t>(i * B::kPatch + j) * plane);
  }
}

template <class B>
void gather_tile(const Winograd& w, size_t index, size_t tile) {
  const Place at = place_of(w, tile);
  const float* const image = w.x + at.image * w.height * w.width * w.x_stride;
  // Wrap round to large numbers above and to the left of the image.
  const size_t y0 = at.y * B::kTile - static_cast<size_t>(w.top);
  const size_t x0 = at.x * B::kTile - static_cast<size_t>(w.left);
  const float* from[B::kPatch][B::kPatch];
  for (size_t i = 0; i < B::kPatch; ++i) {
    for (size_t j = 0; j < B::kPatch; ++j) {
      const bool inside = y0 + i < w.height && x0 + j < w.width;
      from[i][j] = inside ? image + ((y0 + i) * w.width + x0 + j) * w.x_stride : w.zeros;
    }
  }
  float* const to = w.patches + index * w.patch_stride;
  for (size_t next = 0; next < w.channels; next += F32::lanes) {
    const size_t left = w.channels - next;
    const bool whole = kMasks || left >= F32::lanes;
    const size_t c = whole ? next : w.channels - F32::lanes;
    const size_t n = left < F32::lanes ? left : F32::lanes;
    gather_columns<B, 0>(from, c, n, to + c, w.patch_plane);
    if constexpr (B::kPairs > 1) gather_columns<B, 1>(from, c, n, to + c, w.patch_plane);
    if constexpr (B::kPairs > 2) gather_columns<B, 2>(from, c, n, to + c, w.patch_plane);
  }
}

// Channels [c, c + n) of `count` pixels from `pixel` on.
void finish(const Epilogue& e, const float* values, F32 bias, float* y, size_t stride, size_t pixel,
            size_t count, size_t c, size_t n) {
  const size_t more = e.residual && e.residual_channels > c ? e.residual_channels - c : 0;
  const F32 zero = F32::set(0.f), low = F32::set(e.low), high = F32::set(e.high);
  const F32 slope = e.slope ? F32::load(e.slope + c, n) : zero;
  for (size_t j = 0; j < count; ++j) {
    F32 v = F32::load(values + j * F32::lanes) + bias;
    if (more)
      v = v + F32::load(e.residual + (pixel + j) * e.residual_stride + c, more < n ? more : n);
    v = e.slope ? fma(min(zero, v), slope, max(zero, v)) : min(high, max(low, v));
    float* const to = y + (pixel + j) * stride + c;
    if (n == F32::lanes) v.store(to);
    else v.store(to, n);
  }
}

// Rows kFirst, kFirst + 2 ... of a tile, before the epilogue.
template <class B, int kFirst>
PALM_INLINE void rows_of(const float* from, size_t n, size_t plane, float* to) {
  F32 part[B::kTile][B::kPatch];
  PALM_UNROLL for (int j = 0; j < B::kPatch; ++j) {
    F32 m[B::kPatch], y[B::kTile];
    PALM_UNROLL for (int i = 0; i < B::kPatch; ++i)
      m[i] = load_masked(from + static_cast<size_t>(i * B::kPatch + j) * plane, n);
    from_basis<B, kFirst>(m, y);
    PALM_UNROLL for (int i = kFirst; i < B::kTile; i += 2) { part[i][j] = y[i]; }
  }
  PALM_UNROLL for (int i = kFirst; i < B::kTile; i += 2) {
    F32 y[B::kTile];
    from_basis<B, 0>(part[i], y);
    from_basis<B, 1>(part[i], y);
    PALM_UNROLL for (int j = 0; j < B::kTile; ++j)
      y[j].store(to + static_cast<size_t>(i * B::kTile + j) * F32::lanes);
  }
}

template <class B>
void scatter_tile(const Winograd& w, size_t index, size_t tile) {
  const Place at = place_of(w, tile);
  const Epilogue& e = w.epilogue;
  const size_t y0 = at.y * B::kTile, x0 = at.x * B::kTile;
  const size_t rows = w.out_height - y0 < B::kTile ? w.out_height - y0 : B::kTile;
  const size_t columns = w.out_width - x0 < B::kTile ? w.out_width - x0 : B::kTile;
  const size_t pixel = (at.image * w.out_height + y0) * w.out_width + x0;
  const float* const from = w.products + index * w.product_stride;
  for (size_t c = 0; c < w.out_channels; c += F32::lanes) {
    alignas(64) float values[B::kTile * B::kTile * F32::lanes];
    const size_t left = w.out_channels - c, n = left < F32::lanes ? left : F32::lanes;
    rows_of<B, 0>(from + c, n, w.product_plane, values);
    rows_of<B, 1>(from + c, n, w.product_plane, values);
    const F32 bias = e.bias ? F32::load(e.bias + c, n) : F32::set(0.f);
    for (size_t i = 0; i < rows; ++i) {
      const float* const row = values + i * B::kTile * F32::lanes;
      finish(e, row, bias, w.y, w.y_stride, pixel + i * w.out_width, columns, c, n);
    }
  }
  for (size_t i = 0; e.post && i < rows; ++i) {
    e.post(e.post_data, columns, w.out_channels, w.y + (pixel + i * w.out_width) * w.y_stride,
           w.y_stride);
  }
}

template <class B>
void gather(const Winograd& w, size_t first, size_t begin, size_t end) {
  for (size_t tile = begin; tile < end; ++tile) gather_tile<B>(w, tile - first, tile);
}

template <class B>
void scatter(const Winograd& w, size_t first, size_t begin, size_t end) {
  for (size_t tile = begin; tile < end; ++tile) scatter_tile<B>(w, tile - first, tile);
}

// In double: what is rounded here is wrong in every pixel. Run once, when a model is loaded.
template <class B>
__attribute__((cold)) void transform(const float* w, size_t tap_stride, float* transformed) {
  constexpr size_t kLanes = 8;
  using Doubles = double __attribute__((vector_size(kLanes * sizeof(double))));
  using Floats = float __attribute__((vector_size(kLanes * sizeof(float))));
  constexpr const auto& kValues = B::kNumbers.values;
  for (size_t m = 0; m < Winograd::kKernels; m += kLanes) {
    Doubles rows[B::kPatch][B::kTaps];
    for (size_t b = 0; b < B::kTaps; ++b) {
      Doubles taps[B::kTaps];
      PALM_UNROLL for (size_t a = 0; a < B::kTaps; ++a) {
        Floats values;
        __builtin_memcpy(&values, w + (a * B::kTaps + b) * tap_stride + m, sizeof values);
        taps[a] = __builtin_convertvector(values, Doubles);
      }
      PALM_UNROLL for (size_t i = 0; i < B::kPatch; ++i) {
        rows[i][b] = kValues[i][0] * taps[0];
        PALM_UNROLL for (size_t a = 1; a < B::kTaps; ++a)
          rows[i][b] += kValues[i][a] * taps[a];
      }
    }
    for (size_t i = 0; i < B::kPatch; ++i) {
      float* const to = transformed + i * B::kPatch * Winograd::kKernels + m;
      PALM_UNROLL for (size_t j = 0; j < B::kPatch; ++j) {
        Doubles sum = kValues[j][0] * rows[i][0];
        PALM_UNROLL for (size_t b = 1; b < B::kTaps; ++b)
          sum += kValues[j][b] * rows[i][b];
        const Floats values = __builtin_convertvector(sum, Floats);
        __builtin_memcpy(to + j * Winograd::kKernels, &values, sizeof values);
      }
    }
  }
}

// Tap a of a row or column is packed times p^a, p that of the first pair: its values are sums then,
// and those of the second pair, at twice p, sums of doubles. Many CPUs add beside what they
// multiply. What a value is to be multiplied with in the end:
template <class B>
constexpr double scale_of(int row) {
  constexpr double p = B::kNumbers.point[0];
  return row == B::kPatch - 1 ? 1 / (p * p) : B::kNumbers.values[row][0];
}

// Value kRow of three packed taps that lie `stride` apart, before it is multiplied.
template <int kRow>
PALM_INLINE F32 value_of(const float* taps, size_t stride) {
  if constexpr (kRow == 4) return F32::load(taps);
  const F32 last = F32::load(taps + 2 * stride);
  if constexpr (kRow == 5) return last;
  const F32 first = F32::load(taps), middle = F32::load(taps + stride);
  if constexpr (kRow == 0) return first + last + middle;
  if constexpr (kRow == 1) return first + last - middle;
  if constexpr (kRow == 2) {
    const F32 half = last + last + middle;
    return first + (half + half);
  }
  const F32 half = middle - (last + last);
  return first - (half + half);
}

// The tiles' patches at p by a value of the kernels'; p goes on to the next channel.
template <int kTiles>
PALM_INLINE void add_tiles(const char** p, ptrdiff_t stride, ptrdiff_t stride3, F32 value,
                           F32 (&sum)[kTiles]) {
  PALM_UNROLL for (int i = 0; i < kTiles; ++i) {
    const float x = *reinterpret_cast<const float*>(*p + (i == 3 ? stride3 : i * stride));
    sum[i] = fma(F32::set(x), value, sum[i]);
  }
  *p += sizeof(float);
  PALM_PIN(*p);
}

// Row kRow of the products of kTiles tiles from `tile` on. Meanwhile the next kernels are asked for
// from memory.
template <class B, int kRow, int kTiles>
void multiply_row(const Winograd& w, size_t tile, const float* packed, size_t column) {
  constexpr size_t kKernels = Winograd::kKernels, kLine = B::kTaps * kKernels;
  static_assert(B::kPatch == 6 && B::kTaps == 3);
  static_assert(B::kNumbers.point[1] == 2 * B::kNumbers.point[0]);
  F32 sum[B::kPatch][kTiles];
  const char* p[B::kPatch];
  PALM_UNROLL for (size_t j = 0; j < B::kPatch; ++j) {
    p[j] = reinterpret_cast<const char*>(w.patches + (kRow * B::kPatch + j) * w.patch_plane +
                                         tile * w.patch_stride);
    PALM_UNROLL for (int i = 0; i < kTiles; ++i) { sum[j][i] = F32::set(0.f); }
  }
  ptrdiff_t stride = static_cast<ptrdiff_t>(w.patch_stride * sizeof(float)), stride3 = 3 * stride;
  PALM_PIN(stride);
  PALM_PIN(stride3);
  const size_t floats = w.channels * B::kTaps * kLine;
  const float* next = packed + floats + kRow * (floats / B::kPatch);
  for (const float* const end = packed + floats; packed != end; packed += B::kTaps * kLine) {
    __builtin_prefetch(next, 0, 2);
    __builtin_prefetch(next + kKernels, 0, 2);
    next += B::kTaps * kLine / B::kPatch;
    const F32 first = value_of<kRow>(packed, kLine);
    const F32 middle = value_of<kRow>(packed + kKernels, kLine);
    const F32 last = value_of<kRow>(packed + 2 * kKernels, kLine);
    add_tiles(&p[4], stride, stride3, first, sum[4]);
    add_tiles(&p[5], stride, stride3, last, sum[5]);
    const F32 near = first + last, far = fma(F32::set(4.f), last, first), twice = middle + middle;
    add_tiles(&p[0], stride, stride3, near + middle, sum[0]);
    add_tiles(&p[1], stride, stride3, near - middle, sum[1]);
    add_tiles(&p[2], stride, stride3, far + twice, sum[2]);
    add_tiles(&p[3], stride, stride3, far - twice, sum[3]);
  }
  constexpr double kScale = scale_of<B>(kRow);
  PALM_UNROLL for (int j = 0; j < B::kPatch; ++j) {
    const F32 scale = F32::set(static_cast<float>(kScale * scale_of<B>(j)));
    float* to = w.products + static_cast<size_t>(kRow * B::kPatch + j) * w.product_plane +
                tile * w.product_stride + column;
    PALM_UNROLL for (int i = 0; i < kTiles; ++i) {
      (sum[j][i] * scale).store(to);
      to += w.product_stride;
    }
  }
}

template <class B, int kTiles>
void multiply_tiles(const Winograd& w, size_t tile, const float* packed, size_t column) {
  multiply_row<B, 0, kTiles>(w, tile, packed, column);
  multiply_row<B, 1, kTiles>(w, tile, packed, column);
  multiply_row<B, 2, kTiles>(w, tile, packed, column);
  multiply_row<B, 3, kTiles>(w, tile, packed, column);
  multiply_row<B, 4, kTiles>(w, tile, packed, column);
  multiply_row<B, 5, kTiles>(w, tile, packed, column);
}

template <class B>
void multiply(const Winograd& w, size_t tiles, const float* packed, size_t column) {
  constexpr size_t kTiles = 4;
  const size_t rest = tiles % kTiles, whole = tiles - rest;
  for (size_t tile = 0; tile < whole; tile += kTiles)
    multiply_tiles<B, kTiles>(w, tile, packed, column);
  if (rest == 1) multiply_tiles<B, 1>(w, whole, packed, column);
  if (rest == 2) multiply_tiles<B, 2>(w, whole, packed, column);
  if (rest == 3) multiply_tiles<B, 3>(w, whole, packed, column);
}

template <class B>
void pack(const float* w, size_t tap_stride, size_t channels, float* packed) {
  constexpr size_t kKernels = Winograd::kKernels, kTaps = B::kTaps * B::kTaps;
  constexpr double p = B::kNumbers.point[0];
  constexpr double kPowers[] = {1, p, p * p, p * p * p, p * p * p * p};
  for (size_t t = 0; t < kTaps; ++t) {
    const F32 power = F32::set(static_cast<float>(kPowers[t / B::kTaps + t % B::kTaps]));
    for (size_t c = 0; c < channels; ++c) {
      (F32::load(w + t * tap_stride + c * kKernels) * power)
          .store(packed + (c * kTaps + t) * kKernels);
    }
  }
}

template <class B>
WinogradKernel kernel() {
  constexpr bool kFits = F32::lanes == Winograd::kKernels && F32::registers == 32;
  if constexpr (kFits && B::kTile == 4 && B::kTaps == 3)
    return {&gather<B>, &scatter<B>, &transform<B>, &pack<B>, &multiply<B>};
  else return {&gather<B>, &scatter<B>, &transform<B>, nullptr, nullptr};
}

}  // namespace

WinogradKernel PALM_SUFFIX(find_winograd_f32, PALM_ISA_NAME)(size_t tile, size_t taps) {
  if (taps == 4 && tile == 4) return kernel<Basis<4, 4>>();
  if (taps != 3) return {};
  if (tile == 2) return kernel<Basis<2, 3>>();
  if (tile == 4) return kernel<Basis<4, 3>>();
  if (tile == 6) return kernel<Basis<6, 3>>();
  return {};
}

}  // namespace palm
