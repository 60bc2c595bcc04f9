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

void put(F32 x, EitherOut to, size_t n) {
  if (!to.is_narrow) x.store(to.floats(), n);
  else if (n == F32::lanes) store(x, to.narrow());
  else store(x, to.narrow(), n);
}

F32 get(EitherIn from, size_t n) {
  return from.is_narrow ? load(from.narrow(), n, static_cast<F32*>(nullptr))
                        : F32::load(from.floats(), n);
}

// Two tiles' rows of one panel.
struct Block {
  size_t row[2], tiles, rows, column, columns;
};

// As most are: one or two whole vectors without slopes, all of them narrow.
template <int kVectors>
void finish_whole(const Epilogue& e, size_t column, size_t rows, const float* sums, const Bf16* z,
                  size_t z_stride, Bf16* to, size_t stride) {
  const F32 low = F32::set(e.low), high = F32::set(e.high);
  F32 bias[kVectors];
  for (size_t v = 0; v < kVectors; ++v)
    bias[v] = e.bias ? F32::load(e.bias + column + v * F32::lanes) : F32::set(0.f);
  for (size_t i = 0; i < rows; ++i, sums += kPanelColumns, to += stride) {
    F32 x[kVectors];
    PALM_UNROLL for (size_t v = 0; v < kVectors; ++v) {
      x[v] = F32::load(sums + v * F32::lanes) + bias[v];
      if (z) x[v] = x[v] + load(z + i * z_stride + v * F32::lanes, static_cast<F32*>(nullptr));
      x[v] = min(high, max(low, x[v]));
    }
    if constexpr (kVectors == 2) store_both(x[0], x[1], to);
    else store(x[0], to);
  }
}

// What becomes of the sums of a tile's rows, kPanelColumns apart.
void finish(const GemmBf16& g, size_t row, size_t rows, size_t column, size_t columns,
            float* sums) {
  const Epilogue& e = g.epilogue.plain;
  const size_t channels = g.epilogue.residual.data ? g.epilogue.residual_channels : 0;
  const size_t z_stride = g.epilogue.residual_stride;
  const F32 zero = F32::set(0.f), low = F32::set(e.low), high = F32::set(e.high);
  for (size_t j = 0; j < columns; j += F32::lanes) {
    const size_t n = min_of(columns - j, F32::lanes), at = column + j;
    const size_t added = channels > at ? min_of(channels - at, n) : 0;
    EitherIn z = added ? g.epilogue.residual + (row * z_stride + at) : EitherIn();
    EitherOut to = g.c + (row * g.ldc + at);
    float* from = sums + j;
    const bool is_whole = n == F32::lanes && (!added || (z.is_narrow && added == n));
    if (is_whole && to.is_narrow && !e.slope && !e.post) {
      const bool both = columns - j == kPanelColumns && (!added || channels >= at + kPanelColumns);
      (both ? finish_whole<2> : finish_whole<1>)(e, at, rows, from, z.narrow(), z_stride,
                                                 to.narrow(), g.ldc);
      if (both) break;
      continue;
    }
    const F32 bias = e.bias ? F32::load(e.bias + at, n) : zero;
    const F32 slope = e.slope ? F32::load(e.slope + at, n) : zero;
    for (size_t i = 0; i < rows; ++i, from += kPanelColumns, to = to + g.ldc) {
      F32 x = F32::load(from) + bias;
      if (added) {
        x = x + get(z, added);
        z = z + z_stride;
      }
      x = e.slope ? fma(min(zero, x), slope, max(zero, x)) : min(high, max(low, x));
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
