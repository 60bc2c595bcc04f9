// Tiles of up to 16 rows and 16 columns, two by two; their sums are stored for the epilogue.
#include "base/simd.h"
#include "kernels/gemm_bf16/gemm_bf16.h"

namespace palm {
namespace {

constexpr size_t kPanelColumns = 2 * kTileWords, kBlockRows = 2 * kTileRows;
constexpr size_t kLine = 64 / sizeof(Bf16);

size_t min_of(size_t a, size_t b) { return a < b ? a : b; }

// With zeros behind the last columns.
size_t panel_width(size_t columns) { return columns <= kTileWords ? kTileWords : kPanelColumns; }

// The rows of tiles that cover m: as few tiles as can be, equally high.
size_t rows_of(size_t m) {
  const size_t tiles = (m + kTileRows - 1) / kTileRows;
  return (m + tiles - 1) / tiles;
}

// Sums of the rows from row[0] and, if kDown is 2, row[1] on by a panel of kAcross tiles. If
// `fetches`, the panel behind it is brought into L2.
template <int kDown, int kAcross>
void multiply(const GemmBf16& g, const size_t* row, size_t words, const Bf16* b, bool fetches,
              float* sums) {
  constexpr size_t kWidth = kAcross * kTileWords, kStride = kPanelColumns * sizeof(float);
  const size_t lda = g.lda * sizeof(Bf16), step = words * kWidth * 2;
  const size_t ahead = g.k * g.segments * kWidth, fetched = fetches ? step : 0;
  _tile_zero(0);
  if constexpr (kAcross == 2) _tile_zero(1);
  if constexpr (kDown == 2) _tile_zero(2);
  if constexpr (kDown == 2 && kAcross == 2) _tile_zero(3);
  for (size_t s = 0; s < g.segments; ++s) {
    const Bf16* a = g.a[s] + row[0] * g.lda;
    const Bf16* const end = a + g.k;
    const size_t below = (row[kDown - 1] - row[0]) * g.lda;
    for (; a != end; a += words * 2, b += step) {
      for (size_t i = 0; i < fetched; i += kLine) _mm_prefetch(b + ahead + i, _MM_HINT_T1);
      _tile_loadd(6, b, kWidth * 4);
      _tile_loadd(4, a, lda);
      _tile_dpbf16ps(0, 4, 6);
      if constexpr (kAcross == 2) {
        _tile_loadd(7, b + kTileWords * 2, kWidth * 4);
        _tile_dpbf16ps(1, 4, 7);
      }
      if constexpr (kDown == 2) {
        _tile_loadd(5, a + below, lda);
        _tile_dpbf16ps(2, 5, 6);
      }
      if constexpr (kDown == 2 && kAcross == 2) _tile_dpbf16ps(3, 5, 7);
    }
  }
  float* const lower = sums + kTileRows * kPanelColumns;
  _tile_stored(0, sums, kStride);
  if constexpr (kAcross == 2) _tile_stored(1, sums + kTileWords, kStride);
  if constexpr (kDown == 2) _tile_stored(2, lower, kStride);
  if constexpr (kDown == 2 && kAcross == 2) _tile_stored(3, lower + kTileWords, kStride);
}

PALM_INLINE void put(F32 x, EitherOut to, size_t n) {
  if (!to.is_narrow) x.store(to.floats(), n);
  else if (n == F32::lanes) store(x, to.narrow());
  else store(x, to.narrow(), n);
}

PALM_INLINE F32 get(EitherIn from, size_t n) {
  return from.is_narrow ? load(from.narrow(), n, static_cast<F32*>(nullptr))
                        : F32::load(from.floats(), n);
}

// Two tiles' rows of one panel.
struct Block {
  size_t row[2], tiles, rows, column, columns;
};

template <bool kSlopes>
PALM_INLINE F32 activate(F32 x, F32 low_or_slope, F32 high) {
  const F32 zero = F32::set(0.f);
  if constexpr (kSlopes) return fma(min(zero, x), low_or_slope, max(zero, x));
  else return min(high, max(low_or_slope, x));
}

// As most are: one or two whole vectors, all of them narrow.
template <int kVectors, bool kAdds, bool kSlopes>
void finish_whole(const Epilogue& e, size_t column, size_t rows, const float* sums, const Bf16* z,
                  size_t z_stride, Bf16* to, size_t stride) {
  const F32 high = F32::set(e.high);
  F32 bias[kVectors], low_or_slope[kVectors];
  for (size_t v = 0; v < kVectors; ++v) {
    const size_t at = column + v * F32::lanes;
    bias[v] = e.bias ? F32::load(e.bias + at) : F32::set(0.f);
    low_or_slope[v] = kSlopes ? F32::load(e.slope + at) : F32::set(e.low);
  }
  for (size_t i = 0; i < rows; ++i, sums += kPanelColumns, to += stride) {
    F32 x[kVectors];
    PALM_UNROLL for (size_t v = 0; v < kVectors; ++v) {
      x[v] = F32::load(sums + v * F32::lanes) + bias[v];
      if (kAdds) x[v] = x[v] + load(z + i * z_stride + v * F32::lanes, static_cast<F32*>(nullptr));
      x[v] = activate<kSlopes>(x[v], low_or_slope[v], high);
    }
    if constexpr (kVectors == 2) store_both(x[0], x[1], to);
    else store(x[0], to);
  }
}

template <int kVectors>
auto find_finish_whole(bool adds, bool slopes) {
  if (slopes) return adds ? finish_whole<kVectors, true, true> : finish_whole<kVectors, false, true>;
  return adds ? finish_whole<kVectors, true, false> : finish_whole<kVectors, false, false>;
}

// 16 / kColumns rows of that many columns, which lie kPanelColumns apart, side by side.
template <size_t kColumns>
F32 side_by_side(const float* rows) {
  if constexpr (kColumns == 8) {
    const __m256 next = _mm256_loadu_ps(rows + kPanelColumns);
    return {_mm512_insertf32x8(_mm512_castps256_ps512(_mm256_loadu_ps(rows)), next, 1)};
  } else {
    __m512 v = _mm512_castps128_ps512(_mm_loadu_ps(rows));
    v = _mm512_insertf32x4(v, _mm_loadu_ps(rows + kPanelColumns), 1);
    v = _mm512_insertf32x4(v, _mm_loadu_ps(rows + kPanelColumns * 2), 2);
    return {_mm512_insertf32x4(v, _mm_loadu_ps(rows + kPanelColumns * 3), 3)};
  }
}

template <size_t kColumns>
F32 repeated(const float* p) {
  if (!p) return F32::set(0.f);
  if constexpr (kColumns == 8) return {_mm512_broadcast_f32x8(_mm256_loadu_ps(p))};
  else return {_mm512_broadcast_f32x4(_mm_loadu_ps(p))};
}

// Rows of c without anything between them, from `row` on; the residual's lie so, too.
template <size_t kColumns>
void finish_dense(const GemmBf16& g, size_t row, size_t rows, const float* sums) {
  constexpr size_t kTogether = F32::lanes / kColumns;
  const Epilogue& e = g.epilogue.plain;
  const F32 bias = repeated<kColumns>(e.bias), slope = repeated<kColumns>(e.slope);
  const F32 low = F32::set(e.low), high = F32::set(e.high);
  const bool adds = g.epilogue.residual.data;
  const EitherIn z = adds ? g.epilogue.residual + row * kColumns : EitherIn();
  const EitherOut to = g.c + row * kColumns;
  for (size_t i = 0; i < rows; i += kTogether, sums += kTogether * kPanelColumns) {
    const size_t n = min_of(rows - i, kTogether) * kColumns;
    F32 x = side_by_side<kColumns>(sums) + bias;
    if (adds) x = x + get(z + i * kColumns, n);
    x = e.slope ? activate<true>(x, slope, high) : activate<false>(x, low, high);
    put(x, to + i * kColumns, n);
  }
}

bool is_dense(const GemmBf16& g) {
  const EpilogueBf16& e = g.epilogue;
  const bool adds_all = e.residual_channels == g.n && e.residual_stride == g.n;
  return g.ldc == g.n && !e.plain.post && (!e.residual.data || adds_all);
}

// What becomes of the sums of a tile's rows, kPanelColumns apart.
void finish(const GemmBf16& g, size_t row, size_t rows, size_t column, size_t columns,
            float* sums) {
  if (g.n == 8 && is_dense(g)) return finish_dense<8>(g, row, rows, sums);
  if (g.n == 4 && is_dense(g)) return finish_dense<4>(g, row, rows, sums);
  const Epilogue& e = g.epilogue.plain;
  const size_t channels = g.epilogue.residual.data ? g.epilogue.residual_channels : 0;
  const size_t z_stride = g.epilogue.residual_stride;
  const F32 low = F32::set(e.low), high = F32::set(e.high);
  for (size_t j = 0; j < columns; j += F32::lanes) {
    const size_t n = min_of(columns - j, F32::lanes), at = column + j;
    const size_t added = channels > at ? min_of(channels - at, n) : 0;
    EitherIn z = added ? g.epilogue.residual + (row * z_stride + at) : EitherIn();
    EitherOut to = g.c + (row * g.ldc + at);
    float* from = sums + j;
    const bool is_whole = n == F32::lanes && (!added || (z.is_narrow && added == n));
    if (is_whole && to.is_narrow && !e.post) {
      const bool both = columns - j == kPanelColumns && (!added || channels >= at + kPanelColumns);
      const auto run = both ? find_finish_whole<2>(added, e.slope)
                            : find_finish_whole<1>(added, e.slope);
      run(e, at, rows, from, z.narrow(), z_stride, to.narrow(), g.ldc);
      if (both) break;
      continue;
    }
    const F32 bias = e.bias ? F32::load(e.bias + at, n) : F32::set(0.f);
    const F32 slope = e.slope ? F32::load(e.slope + at, n) : F32::set(0.f);
    for (size_t i = 0; i < rows; ++i, from += kPanelColumns, to = to + g.ldc) {
      F32 x = F32::load(from) + bias;
      if (added) {
        x = x + get(z, added);
        z = z + z_stride;
      }
      x = e.slope ? activate<true>(x, slope, high) : activate<false>(x, low, high);
      if (e.post) x.store(from);
      else put(x, to, n);
    }
  }
  if (!e.post) return;
  e.post(e.post_data, rows, columns, sums, kPanelColumns);
  for (size_t i = 0; i < rows; ++i, sums += kPanelColumns) {
    for (size_t j = 0; j < columns; j += F32::lanes) {
      put(F32::load(sums + j), g.c + ((row + i) * g.ldc + column + j),
          min_of(columns - j, F32::lanes));
    }
  }
}

void finish(const GemmBf16& g, const Block& block, float* sums) {
  for (size_t i = 0; i < block.tiles; ++i, sums += kTileRows * kPanelColumns)
    finish(g, block.row[i], block.rows, block.column, block.columns, sums);
}

// All rows of the panels [first, last), side by side so that a's rows stay in L1. The last tile may
// begin before the one above it ends: those rows come out the same. A block is finished while the
// next one is multiplied.
void run_panels(const GemmBf16& g, size_t first, size_t last, size_t words, size_t rows,
                const Bf16* b) {
  alignas(64) float sums[2][kBlockRows * kPanelColumns];
  const size_t depth = g.k * g.segments;
  Block before{};
  size_t turn = 0;
  for (size_t begin = 0; begin < g.m; begin += 2 * rows) {
    Block block{{min_of(begin, g.m - rows), min_of(begin + rows, g.m - rows)}, 2, rows, 0, 0};
    if (begin + rows >= g.m) block.tiles = 1;
    for (size_t panel = first; panel < last; ++panel, turn ^= 1) {
      block.column = panel * kPanelColumns;
      block.columns = min_of(g.n - block.column, kPanelColumns);
      const Bf16* const packed = b + (panel - first) * depth * kPanelColumns;
      const bool is_narrow = block.columns <= kTileWords;
      const auto run = block.tiles == 1 ? (is_narrow ? multiply<1, 1> : multiply<1, 2>)
                                        : (is_narrow ? multiply<2, 1> : multiply<2, 2>);
      // What has more segments is a row of a convolution, and others of it came before.
      const bool is_far = begin == 0 || first + 1 == last;
      const bool fetches = is_far && g.segments == 1 && panel + 1 < g.last_panel;
      run(g, block.row, words, packed, fetches, sums[turn]);
      finish(g, before, sums[turn ^ 1]);
      before = block;
    }
  }
  finish(g, before, sums[turn ^ 1]);
}

}  // namespace

void gemm_bf16_amx_bf16(const GemmBf16& g) {
  constexpr size_t kBytesInL2 = 400 << 10;
  if (g.m == 0) return;
  const size_t words = tile_words(g.k / 2), rows = rows_of(g.m);
  const size_t numbers = g.k * g.segments * kPanelColumns;
  const size_t most = kBytesInL2 / (numbers * sizeof(Bf16)), together = most ? most : 1;
  const Tiles tiles(rows, words);
  for (size_t first = g.first_panel; first < g.last_panel; first += together) {
    run_panels(g, first, min_of(g.last_panel, first + together), words, rows,
               g.b + first * numbers);
  }
}

size_t pack_gemm_bf16_amx_bf16(size_t k, size_t n, const float* source, size_t row_stride,
                               size_t column_stride, Bf16* packed) {
  size_t numbers = 0;
  for (size_t column = 0; column < n; column += kPanelColumns) {
    const size_t columns = min_of(n - column, kPanelColumns), width = panel_width(columns);
    for (size_t p = 0; packed && p < k; ++p) {
      const float* const from = source + p * row_stride + column * column_stride;
      Bf16* const to = packed + numbers + p / 2 * width * 2;
      for (size_t j = 0; j < width; ++j)
        to[j * 2 + p % 2] = narrow(j < columns ? from[j * column_stride] : 0.f);
    }
    numbers += k * width;
  }
  return numbers;
}

GemmPanel panel_gemm_bf16_amx_bf16(size_t n) {
  const size_t columns = min_of(n, kPanelColumns);
  return {columns, panel_width(columns), kBlockRows};
}

size_t count_gemm_bf16_amx_bf16(size_t n) { return (n + kPanelColumns - 1) / kPanelColumns; }

}  // namespace palm
