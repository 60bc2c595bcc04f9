#include "base/simd.h"

#include "kernels/winograd/winograd.h"

namespace palm {
namespace {

constexpr int kTile = Winograd::kTile, kPatch = Winograd::kPatch;
constexpr float kP = Winograd::kP, kQ = Winograd::kQ, kPP = kP * kP, kQQ = kQ * kQ;

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

Place place_of(const Winograd& w, size_t tile) {
  return {tile / w.tiles_across / w.tiles_down, tile / w.tiles_across % w.tiles_down,
          tile % w.tiles_across};
}

template <class Function>
void each_vector(size_t channels, Function f) {
  for (size_t c = 0; c < channels; c += F32::lanes)
    f(c, channels - c < F32::lanes ? channels - c : F32::lanes);
}

void gather_tile(const Winograd& w, size_t index, size_t tile) {
  const Place at = place_of(w, tile);
  const float* const image = w.x + at.image * w.height * w.width * w.channels;
  // Wrap round to large numbers above and to the left of the image.
  const size_t y0 = at.y * kTile - static_cast<size_t>(w.top);
  const size_t x0 = at.x * kTile - static_cast<size_t>(w.left);
  each_vector(w.channels, [&](size_t c, size_t n) {
    F32 rows[kPatch][kPatch];
    PALM_UNROLL for (int j = 0; j < kPatch; ++j) {
      F32 d[kPatch];
      const size_t x = x0 + static_cast<size_t>(j);
      PALM_UNROLL for (int i = 0; i < kPatch; ++i) {
        const size_t y = y0 + static_cast<size_t>(i);
        const bool inside = y < w.height && x < w.width;
        d[i] = inside ? F32::load(image + (y * w.width + x) * w.channels + c, n) : F32::set(0.f);
      }
      to_basis(d);
      PALM_UNROLL for (int i = 0; i < kPatch; ++i) { rows[i][j] = d[i]; }
    }
    float* const to = w.patches + index * w.channels + c;
    for (int i = 0; i < kPatch; ++i) {
      to_basis(rows[i]);
      PALM_UNROLL for (int j = 0; j < kPatch; ++j)
        rows[i][j].store(to + static_cast<size_t>(i * kPatch + j) * w.patch_stride, n);
    }
  });
}

F32 finish(const Epilogue& e, F32 v, size_t pixel, size_t c, size_t n) {
  if (e.residual && e.residual_channels > c) {
    const size_t rest = e.residual_channels - c;
    v = v + F32::load(e.residual + pixel * e.residual_stride + c, rest < n ? rest : n);
  }
  const F32 zero = F32::set(0.f);
  return e.slope ? fma(min(zero, v), F32::load(e.slope + c, n), max(zero, v))
                 : min(F32::set(e.high), max(F32::set(e.low), v));
}

void scatter_tile(const Winograd& w, size_t index, size_t tile) {
  const Place at = place_of(w, tile);
  const Epilogue& e = w.epilogue;
  const size_t y0 = at.y * kTile, x0 = at.x * kTile;
  const size_t rows = w.out_height - y0 < kTile ? w.out_height - y0 : kTile;
  const size_t columns = w.out_width - x0 < kTile ? w.out_width - x0 : kTile;
  const size_t pixel = (at.image * w.out_height + y0) * w.out_width + x0;
  each_vector(w.out_channels, [&](size_t c, size_t n) {
    const float* const from = w.products + index * w.out_channels + c;
    const F32 bias = e.bias ? F32::load(e.bias + c, n) : F32::set(0.f);
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
      for (size_t j = 0; j < columns; ++j) {
        const size_t p = pixel + i * w.out_width + j;
        finish(e, y[j] + bias, p, c, n).store(w.y + p * w.out_channels + c, n);
      }
    }
  });
  for (size_t i = 0; e.post && i < rows; ++i) {
    e.post(e.post_data, columns, w.out_channels, w.y + (pixel + i * w.out_width) * w.out_channels,
           w.out_channels);
  }
}

}  // namespace

void PALM_FN(gather_winograd_f32)(const Winograd& w, size_t first, size_t begin, size_t end) {
  for (size_t tile = begin; tile < end; ++tile) gather_tile(w, tile - first, tile);
}

void PALM_FN(scatter_winograd_f32)(const Winograd& w, size_t first, size_t begin, size_t end) {
  for (size_t tile = begin; tile < end; ++tile) scatter_tile(w, tile - first, tile);
}

}  // namespace palm
