// Tiles of up to 16 rows by up to 4 vectors are summed in registers. Rows of a are read in place;
// b lies in panels as wide as a tile, its rows one after another: full vectors, then a tail that is
// half a vector where that is enough and the set has it.
#include "base/simd.h"

#include <algorithm>

#include "base/needs.h"
#include "kernels/gemm/gemm.h"

namespace palm {
namespace {

constexpr size_t kWidest = 4, kMaxVectors = F32::registers == 32 ? kWidest : 3;

// The most rows that a tile of 1, 2 ... vectors has: with AVX-512; else with 32 registers, 16, fewer.
constexpr int kMostRows[4][kWidest] = {
    {8, 8, 6, 6}, {12, 12, 8, 6}, {12, 6, 4, 4}, {8, 4, 3, 3}};
constexpr size_t kMaxRows = 12;
constexpr int most_rows(size_t vectors, bool half) {
  // Half vectors are done twice as fast.
  if (F32::lanes == 16) return half && vectors == 1 ? 12 : kMostRows[0][vectors - 1];
  return kMostRows[F32::registers == 32 ? 1 : F32::registers == 16 ? 2 : 3][vectors - 1];
}

// As many as are best for sums of `depth`: the end of a tile is a burst of work beside which the
// next one's sums are begun only if it is short, but a low tile reads b more often.
size_t best_rows(size_t vectors, bool half, size_t depth) {
  constexpr int kShort = 4;
  constexpr size_t kDeep = 80;
  const int most = most_rows(vectors, half);
  const bool low = F32::lanes == 16 && vectors > 2 && depth < kDeep;
  return static_cast<size_t>(low && most > kShort ? kShort : most);
}

constexpr size_t vectors_of(size_t columns) { return (columns + F32::lanes - 1) / F32::lanes; }

// The width of the next panel when `left` columns are left: wide ones first, but no narrow rest.
size_t panel_columns(size_t left) {
  const size_t vectors = vectors_of(left);
  if (vectors <= kMaxVectors) return left;
  if (kMaxVectors == 4) return (vectors < 8 ? 2 : 4) * F32::lanes;
  return (vectors % 3 == 0 ? 3 : 2) * F32::lanes;
}

// Floats of one packed row of a panel.
size_t panel_floats(size_t columns) {
  const size_t tail = columns % F32::lanes;
  if (kHasHalf && tail && tail <= F32::lanes / 2) return columns - tail + F32::lanes / 2;
  return vectors_of(columns) * F32::lanes;
}

template <bool kPrelu, class V>
PALM_INLINE V activate(V x, V slope, V low, V high) {
  if constexpr (kPrelu) return fma(min(V::set(0.f), x), slope, max(V::set(0.f), x));
  else return min(high, max(low, x));
}

// Activates the sums of kRows rows and stores them; kWhole: all columns of the last vector.
template <bool kPrelu, bool kWhole, int kFull, int kSums, int kRows, class Last>
PALM_INLINE void store(const F32 (&sum)[kSums][kRows], const Last (&last)[kRows], const Epilogue& e,
                       size_t column, size_t last_columns, float* c, size_t ldc) {
  constexpr size_t kBegin = kFull * F32::lanes;
  const float low = e.low, high = e.high;
  F32 slope[kSums];
  PALM_UNROLL for (size_t v = 0; v < kFull; ++v)
    slope[v] = kPrelu ? F32::load(e.slope + column + v * F32::lanes) : F32::set(0.f);
  const Last last_slope =
      kPrelu ? Last::load(e.slope + column + kBegin, last_columns) : Last::set(0.f);
  PALM_UNROLL for (int i = 0; i < kRows; ++i, c += ldc) {
    PALM_PIN(c);
    PALM_UNROLL for (size_t v = 0; v < kFull; ++v)
      activate<kPrelu>(sum[v][i], slope[v], F32::set(low), F32::set(high))
          .store(c + v * F32::lanes);
    const Last y = activate<kPrelu>(last[i], last_slope, Last::set(low), Last::set(high));
    if constexpr (kWhole) y.store(c + kBegin);
    else y.store(c + kBegin, last_columns);
  }
}

// Floats that b is fetched ahead where it is wanted once.
constexpr size_t kAhead = 2048;
// Bytes that are asked for from memory beside each row of b, and at most. Weights come at some 8
// bytes a cycle: they are to come while something else is computed, not when they are wanted.
constexpr size_t kAsked = 8 * sizeof(float), kMostAsked = 128 << 10;

// Rows [row, row + kRows) of the panel at `column`: kFull vectors, then one, perhaps shorter, of
// which the first `last_columns` are the matrix's. next: what is wanted later.
template <int kRows, int kFull, class Last>
void tile(const Gemm& g, size_t row, size_t column, size_t last_columns, const float* b,
          uintptr_t next) {
  constexpr int kSums = kFull ? kFull : 1, kPointers = (kRows + 3) / 4;
  constexpr size_t kFullColumns = kFull * F32::lanes, kWidth = kFullColumns + Last::lanes;
  const Epilogue& e = g.epilogue;
  F32 sum[kSums][kRows];
  Last last[kRows];
  {
    PALM_UNROLL for (int v = 0; v < kFull; ++v) {
      const F32 start = e.bias ? F32::load(e.bias + column + v * F32::lanes) : F32::set(0.f);
      PALM_UNROLL for (int i = 0; i < kRows; ++i) { sum[v][i] = start; }
    }
    const Last start =
        e.bias ? Last::load(e.bias + column + kFullColumns, last_columns) : Last::set(0.f);
    PALM_UNROLL for (int i = 0; i < kRows; ++i) { last[i] = start; }
  }
  if (e.residual) {
    const float* r = e.residual + row * e.residual_stride + column;
    const size_t columns = e.residual_channels > column ? e.residual_channels - column : 0;
    const auto left = [&](size_t begin, size_t most) {
      const size_t n = columns > begin ? columns - begin : 0;
      return n < most ? n : most;
    };
    size_t n[kSums];
    PALM_UNROLL for (size_t v = 0; v < kFull; ++v)
      n[v] = left(v * F32::lanes, F32::lanes);
    const size_t last_n = left(kFullColumns, last_columns);
    PALM_UNROLL for (int i = 0; i < kRows; ++i, r += e.residual_stride) {
      PALM_PIN(r);
      PALM_UNROLL for (size_t v = 0; v < kFull; ++v)
        sum[v][i] = sum[v][i] + F32::load(r + v * F32::lanes, n[v]);
      last[i] = last[i] + Last::load(r + kFullColumns, last_n);
    }
  }
  // One pointer for four rows, at p, p + lda, p + 2 * lda and p + 3 * lda.
  ptrdiff_t lda = static_cast<ptrdiff_t>(g.lda * sizeof(float)), lda3 = lda * 3;
  PALM_PIN(lda);
  PALM_PIN(lda3);
  size_t step = g.ldb ? g.ldb : kWidth;
  PALM_PIN(step);
  // Smaller tiles leave no room for it.
  constexpr bool kAsks = kRows > 4 && kFull > 1;
  for (size_t s = 0; s < g.segments; ++s) {
    const char* p[kPointers];
    PALM_UNROLL for (int i = 0; i < kPointers; ++i)
      p[i] = reinterpret_cast<const char*>(g.a[s] + (row + static_cast<size_t>(i) * 4) * g.lda);
    const float* const end = b + g.k * step;
    // Moves with p[0], eight times as fast: a pointer of its own would take an instruction more.
    uintptr_t asked = next - reinterpret_cast<uintptr_t>(p[0]) * 8;
    if constexpr (kAsks) PALM_PIN(asked);
    next += g.k * kAsked;
    do {
      F32 y[kSums];
      PALM_UNROLL for (int v = 0; v < kFull; ++v) { y[v] = F32::load(b + v * F32::lanes); }
      // With one row b comes from far away, and each of it is wanted once.
      if constexpr (kRows == 1) {
        PALM_UNROLL for (int v = 0; v <= kFull; ++v) {
          __builtin_prefetch(b + kAhead + v * F32::lanes);
        }
      }
      if constexpr (kRows > 1 && kFull == 0) __builtin_prefetch(b + g.ahead, 0, 2);
      if constexpr (kAsks) {
        PALM_PREFETCH_BY_8(asked, p[0]);
      }
      const Last y_last = Last::load(b + kFullColumns);
      PALM_UNROLL for (int i = 0; i < kRows; ++i) {
        const ptrdiff_t offset = i % 4 == 3 ? lda3 : i % 4 * lda;
        const float x = *reinterpret_cast<const float*>(p[i / 4] + offset);
        PALM_UNROLL for (int v = 0; v < kFull; ++v) {
          sum[v][i] = fma(F32::set(x), y[v], sum[v][i]);
        }
        last[i] = fma(Last::set(x), y_last, last[i]);
      }
      PALM_UNROLL for (int i = 0; i < kPointers; ++i) {
        p[i] += sizeof(float);
        PALM_PIN(p[i]);
      }
      b += step;
    } while (b != end);
  }
  float* const c = g.c + row * g.ldc + column;
  // A masked store costs no more where the set has masks of its own.
  constexpr bool kTellsWhole = !kHasMasks && !kIsSmall;
  const bool whole = kTellsWhole && last_columns == Last::lanes;
  if (e.slope && whole)
    store<true, kTellsWhole, kFull>(sum, last, e, column, last_columns, c, g.ldc);
  else if (e.slope) store<true, false, kFull>(sum, last, e, column, last_columns, c, g.ldc);
  else if (whole) store<false, kTellsWhole, kFull>(sum, last, e, column, last_columns, c, g.ldc);
  else store<false, false, kFull>(sum, last, e, column, last_columns, c, g.ldc);
  if (e.post) e.post(e.post_data, kRows, kFullColumns + last_columns, c, g.ldc);
}

using Tile = void (*)(const Gemm& g, size_t row, size_t column, size_t last_columns,
                      const float* b, uintptr_t next);

// The most rows of a tile where `rows` are left and tiles have few heights.
constexpr int few_rows(int rows, int most) {
  constexpr int kSome = 4;
  return rows >= most ? most : rows >= kSome && kSome < most ? kSome : 1;
}

// By rows - 1.
template <int kFull, class Last>
struct Tiles {
  static constexpr int kMost = most_rows(kFull + 1, Last::lanes < F32::lanes);
  static constexpr int row(int rows) {
    return kIsSmall ? few_rows(rows, kMost) : rows < kMost ? rows : kMost;
  }
  static constexpr Tile kAll[12] = {
      tile<row(1), kFull, Last>,  tile<row(2), kFull, Last>,  tile<row(3), kFull, Last>,
      tile<row(4), kFull, Last>,  tile<row(5), kFull, Last>,  tile<row(6), kFull, Last>,
      tile<row(7), kFull, Last>,  tile<row(8), kFull, Last>,  tile<row(9), kFull, Last>,
      tile<row(10), kFull, Last>, tile<row(11), kFull, Last>, tile<row(12), kFull, Last>};
};

bool is_half(size_t last) { return kHasHalf && last <= F32Half::lanes; }

template <int kFull>
const Tile* find_last(size_t last) {
  return is_half(last) ? Tiles<kFull, F32Half>::kAll : Tiles<kFull, F32>::kAll;
}

// The tiles for a panel of `vectors`, the last of them so wide.
const Tile* find_tiles(size_t vectors, size_t last) {
  switch (vectors) {
    case 1: return find_last<0>(last);
    case 2: return find_last<1>(last);
    case 3: return find_last<2>(last);
    default: return find_last<static_cast<int>(kMaxVectors) - 1>(last);
  }
}

struct Panel {
  size_t column, last_columns, most_rows;
  const float* b;
  const Tile* tiles;
};

// All rows of `count` panels whose tiles have as many rows, side by side so that a's rows stay in
// L1. What is wanted next comes meanwhile.
void run_panels(const Gemm& g, const Panel* panels, size_t count, Bytes wanted) {
  const size_t tiles = (g.m + panels[0].most_rows - 1) / panels[0].most_rows;
  const size_t least = tiles ? g.m / tiles : 0, larger = g.m - least * tiles;
  uintptr_t next = reinterpret_cast<uintptr_t>(wanted.data);
  const uintptr_t end = next + std::min(wanted.size, kMostAsked);
  size_t row = 0, bytes = g.k * g.segments * kAsked;
  for (size_t t = 0; kIsSmall ? row < g.m : t < tiles; ++t) {
    const size_t rows = kIsSmall ? static_cast<size_t>(few_rows(
                                       static_cast<int>(std::min<size_t>(g.m - row, kMaxRows)),
                                       static_cast<int>(panels[0].most_rows)))
                                 : least + (t < larger);
    // Behind the end for what is at hand anyway.
    if (next >= end) next = reinterpret_cast<uintptr_t>(panels[0].b), bytes = 0;
    for (size_t i = 0; i < count; ++i) {
      const Panel& p = panels[i];
      p.tiles[rows - 1](g, row, p.column, p.last_columns, p.b, next);
      next += bytes;
    }
    row += rows;
  }
}

// to[i * to_stride + j] = from[j * from_stride + i], i and j below kSquare.
constexpr size_t kSquare = 4;
PALM_INLINE void transpose_square(const float* from, size_t from_stride, float* to,
                                  size_t to_stride) {
  using Row = float __attribute__((vector_size(kSquare * sizeof(float))));
  Row r[kSquare], half[kSquare];
  for (size_t j = 0; j < kSquare; ++j) __builtin_memcpy(&r[j], from + j * from_stride, sizeof(Row));
  for (size_t j = 0; j < 2; ++j) {
    half[j] = __builtin_shufflevector(r[j], r[j + 2], 0, 4, 1, 5);
    half[j + 2] = __builtin_shufflevector(r[j], r[j + 2], 2, 6, 3, 7);
  }
  for (size_t i = 0; i < kSquare; i += 2) {
    r[i] = __builtin_shufflevector(half[i], half[i + 1], 0, 4, 1, 5);
    r[i + 1] = __builtin_shufflevector(half[i], half[i + 1], 2, 6, 3, 7);
  }
  for (size_t i = 0; i < kSquare; ++i) __builtin_memcpy(to + i * to_stride, &r[i], sizeof(Row));
}

}  // namespace

void PALM_FN(gemm_f32)(const Gemm& g) {
  // As small as pays where the next ones come meanwhile.
  constexpr size_t kMostPanels = 32, kMostBytes = kMaxVectors == kWidest ? kMostAsked : 400 << 10;
  Panel panels[kMostPanels];
  const size_t depth = g.k * g.segments;
  const float* b = g.b;
  size_t column = 0, count = 0, bytes = 0;
  for (size_t index = 0; index < g.last_panel; ++index) {
    const size_t columns = panel_columns(g.n - column), floats = depth * panel_floats(columns);
    if (index >= g.first_panel) {
      const bool fits = count < kMostPanels && bytes + floats * sizeof(float) <= kMostBytes;
      const size_t vectors = vectors_of(columns), last = columns - (vectors - 1) * F32::lanes;
      const size_t rows = best_rows(vectors, is_half(last), depth);
      if (count && (!fits || rows != panels[0].most_rows)) {
        run_panels(g, panels, count, {reinterpret_cast<const char*>(b), kMostAsked});
        count = bytes = 0;
      }
      panels[count++] = {column, last, rows, b, find_tiles(vectors, last)};
      bytes += floats * sizeof(float);
    }
    b += g.ldb ? columns : floats;
    column += columns;
  }
  if (count) run_panels(g, panels, count, g.next);
}

size_t PALM_SUFFIX(pack_gemm_f32, PALM_ISA_NAME)(size_t k, size_t n, const float* source,
                                                 size_t row_stride, size_t column_stride,
                                                 float* packed) {
  size_t floats = 0;
  for (size_t column = 0; column < n;) {
    const size_t columns = panel_columns(n - column), width = panel_floats(columns);
    // Some cache lines of each column at a time: columns are often a power of two apart, so that
    // few of their lines fit into L1 at once.
    constexpr size_t kRows = 64;
    for (size_t p = 0; packed && p < k; p += kRows) {
      const size_t rows = std::min(kRows, k - p);
      const float* const from = source + p * row_stride + column * column_stride;
      float* const to = packed + floats + p * width;
      const bool lies_across = row_stride == 1;
      const size_t square_columns = lies_across ? columns / kSquare * kSquare : 0;
      const size_t square_rows = rows / kSquare * kSquare;
      for (size_t j = 0; j < square_columns; j += kSquare)
        for (size_t i = 0; i < square_rows; i += kSquare)
          transpose_square(from + j * column_stride + i, column_stride, to + i * width + j, width);
      for (size_t j = 0; j < columns; ++j)
        for (size_t i = j < square_columns ? square_rows : 0; i < rows; ++i)
          to[i * width + j] = from[i * row_stride + j * column_stride];
      for (size_t i = 0; i < rows; ++i)
        for (size_t j = columns; j < width; ++j) to[i * width + j] = 0.f;
    }
    floats += k * width;
    column += columns;
  }
  return floats;
}

GemmPanel PALM_SUFFIX(panel_gemm_f32, PALM_ISA_NAME)(size_t n) {
  const size_t columns = panel_columns(n), vectors = vectors_of(columns);
  const bool half = is_half(columns - (vectors - 1) * F32::lanes);
  return {columns, panel_floats(columns), static_cast<size_t>(most_rows(vectors, half))};
}

size_t PALM_SUFFIX(count_gemm_f32, PALM_ISA_NAME)(size_t n) {
  size_t count = 0;
  for (size_t column = 0; column < n; ++count) column += panel_columns(n - column);
  return count;
}

}  // namespace palm
