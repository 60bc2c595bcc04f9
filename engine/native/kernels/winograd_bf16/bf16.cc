#include "base/simd.h"
#include "kernels/winograd_bf16/winograd_bf16.h"

namespace palm {
namespace {

constexpr int kTile = WinogradBf16::kTile, kPatch = WinogradBf16::kPatch;
constexpr float kP = WinogradBf16::kP, kQ = WinogradBf16::kQ, kPP = kP * kP, kQQ = kQ * kQ;

F32 fma(F32 a, float b, F32 c) { return fma(a, F32::set(b), c); }

// Six values of x into the other basis.
PALM_INLINE void to_basis(F32* d) {
  const F32 a = fma(d[2], -kQQ, d[4]), b = fma(d[1], -kQQ, d[3]);
  const F32 c = fma(d[2], -kPP, d[4]), e = fma(d[1], -kPP, d[3]);
  const F32 first = fma(d[0], kPP * kQQ, fma(d[2], -kPP - kQQ, d[4]));
  const F32 last = fma(d[1], kPP * kQQ, fma(d[3], -kPP - kQQ, d[5]));
  d[0] = first;
  d[1] = fma(b, kP, a);
  d[2] = fma(b, -kP, a);
  d[3] = fma(e, kQ, c);
  d[4] = fma(e, -kQ, c);
  d[5] = last;
}

// Six products into four values of y.
PALM_INLINE void from_basis(const F32* m, F32* y) {
  const F32 s = m[1] + m[2], d = m[1] - m[2], t = m[3] + m[4], u = m[3] - m[4];
  y[0] = m[0] + (s + t);
  y[1] = fma(u, kQ, d * F32::set(kP));
  y[2] = fma(t, kQQ, s * F32::set(kPP));
  y[3] = fma(u, kQ * kQQ, fma(d, kP * kPP, m[5]));
}

struct Place {
  size_t image, y, x;  // in tiles
};

Place place_of(const WinogradBf16& w, size_t tile) {
  return {tile / w.tiles_across / w.tiles_down, tile / w.tiles_across % w.tiles_down,
          tile % w.tiles_across};
}

F32 load_first(const float* p, size_t n) { return F32::load(p, n); }
F32 load_first(const Bf16* p, size_t n) { return load(p, n, static_cast<F32*>(nullptr)); }

template <class Number>
void gather_tile(const WinogradBf16& w, const Number* x, size_t index, size_t tile) {
  const Place at = place_of(w, tile);
  const Number* const image = x + at.image * w.height * w.width * w.x_stride;
  // Wrap round to large numbers above and to the left of the image.
  const size_t y0 = at.y * kTile - static_cast<size_t>(w.top);
  const size_t x0 = at.x * kTile - static_cast<size_t>(w.left);
  for (size_t c = 0; c < w.channels; c += F32::lanes) {
    const size_t n = w.channels - c < F32::lanes ? w.channels - c : F32::lanes;
    F32 rows[kPatch][kPatch];
    PALM_UNROLL for (int j = 0; j < kPatch; ++j) {
      F32 d[kPatch];
      const size_t column = x0 + static_cast<size_t>(j);
      PALM_UNROLL for (int i = 0; i < kPatch; ++i) {
        const size_t row = y0 + static_cast<size_t>(i);
        const bool inside = row < w.height && column < w.width;
        d[i] = inside ? load_first(image + (row * w.width + column) * w.x_stride + c, n)
                      : F32::set(0.f);
      }
      to_basis(d);
      PALM_UNROLL for (int i = 0; i < kPatch; ++i) { rows[i][j] = d[i]; }
    }
    Bf16* const to = w.patches + index * w.channels + c;
    for (int i = 0; i < kPatch; ++i) {
      F32 d[kPatch];
      PALM_UNROLL for (int j = 0; j < kPatch; ++j) { d[j] = rows[i][j]; }
      to_basis(d);
      PALM_UNROLL for (int j = 0; j < kPatch; ++j) {
        if constexpr (WinogradBf16::kScale != 1.f)
          d[j] = d[j] * F32::set(1 / WinogradBf16::kScale);
        Bf16* const p = to + static_cast<size_t>(i * kPatch + j) * w.patch_stride;
        if (n == F32::lanes) store(d[j], p);
        else store(d[j], p, n);
      }
    }
  }
}

F32 finish(const EpilogueBf16& e, F32 v, size_t pixel, size_t c, size_t n) {
  if (e.residual.data && e.residual_channels > c) {
    const size_t rest = e.residual_channels - c, added = rest < n ? rest : n;
    const EitherIn r = e.residual + (pixel * e.residual_stride + c);
    v = v + (r.is_narrow ? load_first(r.narrow(), added) : load_first(r.floats(), added));
  }
  const F32 zero = F32::set(0.f);
  return e.plain.slope ? fma(min(zero, v), F32::load(e.plain.slope + c, n), max(zero, v))
                       : min(F32::set(e.plain.high), max(F32::set(e.plain.low), v));
}

void scatter_tile(const WinogradBf16& w, size_t index, size_t tile) {
  const Place at = place_of(w, tile);
  const EpilogueBf16& e = w.epilogue;
  const size_t y0 = at.y * kTile, x0 = at.x * kTile;
  const size_t rows = w.out_height - y0 < kTile ? w.out_height - y0 : kTile;
  const size_t columns = w.out_width - x0 < kTile ? w.out_width - x0 : kTile;
  const size_t pixel = (at.image * w.out_height + y0) * w.out_width + x0;
  for (size_t c = 0; c < w.out_channels; c += F32::lanes) {
    const size_t n = w.out_channels - c < F32::lanes ? w.out_channels - c : F32::lanes;
    const float* const from = w.products + index * w.out_channels + c;
    const F32 bias = e.plain.bias ? F32::load(e.plain.bias + c, n) : F32::set(0.f);
    F32 part[kTile][kPatch];
    PALM_UNROLL for (int j = 0; j < kPatch; ++j) {
      F32 m[kPatch], y[kTile];
      PALM_UNROLL for (int i = 0; i < kPatch; ++i)
        m[i] = F32::load(from + static_cast<size_t>(i * kPatch + j) * w.product_stride, n);
      from_basis(m, y);
      PALM_UNROLL for (int i = 0; i < kTile; ++i) { part[i][j] = y[i]; }
    }
    for (size_t i = 0; i < rows; ++i) {
      F32 y[kTile];
      from_basis(part[i], y);
      const size_t p = pixel + i * w.out_width;
      for (size_t j = 0; j < columns; ++j) y[j] = finish(e, y[j] + bias, p + j, c, n);
      if (e.plain.post) {
        e.plain.post(e.plain.post_data, columns, n, reinterpret_cast<float*>(y), F32::lanes);
      }
      for (size_t j = 0; j < columns; ++j) {
        const EitherOut to = w.y + ((p + j) * w.y_stride + c);
        if (!to.is_narrow) y[j].store(to.floats(), n);
        else if (n == F32::lanes) store(y[j], to.narrow());
        else store(y[j], to.narrow(), n);
      }
    }
  }
}

}  // namespace

void PALM_SUFFIX(gather_winograd_bf16, PALM_ISA_NAME)(const WinogradBf16& w, size_t first,
                                                      size_t begin, size_t end) {
  for (size_t tile = begin; tile < end; ++tile) {
    if (w.x.is_narrow) gather_tile(w, w.x.narrow(), tile - first, tile);
    else gather_tile(w, w.x.floats(), tile - first, tile);
  }
}

void PALM_SUFFIX(scatter_winograd_bf16, PALM_ISA_NAME)(const WinogradBf16& w, size_t first,
                                                       size_t begin, size_t end) {
  for (size_t tile = begin; tile < end; ++tile) scatter_tile(w, tile - first, tile);
}

}  // namespace palm
