// Tiles of up to 16 rows by up to 4 vectors are summed in registers. Rows of a are read in place;
// b lies in panels as wide as a tile, its rows one after another: full vectors, then a tail that is
// half a vector where that is enough and the set has it.
#include "base/simd.h"

#include "kernels/gemm/gemm.h"

namespace palm {
namespace {

struct NoTail {
  static constexpr size_t lanes = 0;
  static NoTail load(const float*) { return {}; }
  static NoTail load(const float*, size_t) { return {}; }
  void store(float*, size_t) const {}
  static NoTail set(float) { return {}; }
  friend NoTail operator+(NoTail, NoTail) { return {}; }
  friend NoTail fma(NoTail, NoTail, NoTail) { return {}; }
  friend NoTail max(NoTail, NoTail) { return {}; }
  friend NoTail min(NoTail, NoTail) { return {}; }
};

constexpr size_t kMaxVectors = F32::registers == 32 ? 4 : 3;

// The rows that tiles of 1, 2 ... vectors have: as many as the registers hold beside a row of b and
// an element of a, and fewer for what is left of a matrix.
constexpr int kRowChoices = 6;
using RowChoices = int[kRowChoices];
constexpr RowChoices kWideRows[] = {
    {16, 12, 8, 4, 2, 1}, {14, 10, 7, 4, 2, 1}, {9, 6, 4, 3, 2, 1}, {6, 5, 4, 3, 2, 1}};
constexpr RowChoices kNarrowRows[] = {{12, 8, 6, 4, 2, 1}, {6, 5, 4, 3, 2, 1}, {4, 4, 3, 3, 2, 1}};

constexpr const RowChoices& row_choices(size_t vectors) {
  return F32::registers == 32 ? kWideRows[vectors - 1] : kNarrowRows[vectors - 1];
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

template <class V>
V load_or_zero(const float* p, size_t n) {
  return p ? V::load(p, n) : V::set(0.f);
}

template <bool kPrelu, class V>
V activate(V x, V slope, V low, V high) {
  if constexpr (kPrelu) return fma(min(V::set(0.f), x), slope, max(V::set(0.f), x));
  else return min(high, max(low, x));
}

// Rows [row, row + kRows) of the panel at `column`: kFull vectors, then `tail_columns` in a Tail.
constexpr size_t kAhead = 2048;  // floats

template <int kRows, int kFull, class Tail, bool kPrelu>
void tile(const Gemm& g, size_t row, size_t column, size_t tail_columns, const float* b) {
  constexpr int kSum = kFull ? kFull : 1, kPointers = (kRows + 3) / 4;
  constexpr size_t kWidth = kFull * F32::lanes + Tail::lanes;
  const Epilogue& e = g.epilogue;
  F32 sum[kRows][kSum];
  Tail tail[kRows];
  {
    const float* const bias = e.bias ? e.bias + column : nullptr;
    PALM_UNROLL for (int v = 0; v < kFull; ++v) {
      const F32 start = bias ? F32::load(bias + v * F32::lanes) : F32::set(0.f);
      PALM_UNROLL for (int i = 0; i < kRows; ++i) { sum[i][v] = start; }
    }
    const Tail start = load_or_zero<Tail>(bias ? bias + kFull * F32::lanes : nullptr, tail_columns);
    PALM_UNROLL for (int i = 0; i < kRows; ++i) { tail[i] = start; }
  }
  // One pointer for four rows, at p, p + lda, p + 2 * lda and p + 3 * lda.
  ptrdiff_t lda = static_cast<ptrdiff_t>(g.lda * sizeof(float)), lda3 = lda * 3;
  PALM_PIN(lda);
  PALM_PIN(lda3);
  for (size_t s = 0; s < g.segments; ++s) {
    const char* p[kPointers];
    PALM_UNROLL for (int i = 0; i < kPointers; ++i)
      p[i] = reinterpret_cast<const char*>(g.a[s] + (row + static_cast<size_t>(i) * 4) * g.lda);
    const float* const end = b + g.k * kWidth;
    do {
      F32 y[kSum];
      PALM_UNROLL for (int v = 0; v < kFull; ++v) { y[v] = F32::load(b + v * F32::lanes); }
      // With one row b comes from far away, and each of it is wanted once.
      if constexpr (kRows == 1) {
        PALM_UNROLL for (int v = 0; v < kFull; ++v) {
          __builtin_prefetch(b + kAhead + v * F32::lanes);
        }
      }
      const Tail y_tail = Tail::load(b + kFull * F32::lanes);
      PALM_UNROLL for (int i = 0; i < kRows; ++i) {
        const ptrdiff_t offset = i % 4 == 3 ? lda3 : i % 4 * lda;
        const float x = *reinterpret_cast<const float*>(p[i / 4] + offset);
        PALM_UNROLL for (int v = 0; v < kFull; ++v) {
          sum[i][v] = fma(F32::set(x), y[v], sum[i][v]);
        }
        tail[i] = fma(Tail::set(x), y_tail, tail[i]);
      }
      PALM_UNROLL for (int i = 0; i < kPointers; ++i) {
        p[i] += sizeof(float);
        PALM_PIN(p[i]);
      }
      b += kWidth;
    } while (b != end);
  }
  if (e.residual) {
    const float* const r = e.residual + row * e.residual_stride + column;
    const size_t columns = e.residual_channels > column ? e.residual_channels - column : 0;
    const auto left = [&](int v, size_t most) {
      const size_t begin = static_cast<size_t>(v) * F32::lanes;
      const size_t n = columns > begin ? columns - begin : 0;
      return n < most ? n : most;
    };
    PALM_UNROLL for (int v = 0; v < kFull; ++v) {
      const size_t n = left(v, F32::lanes);
      PALM_UNROLL for (int i = 0; i < kRows; ++i)
        sum[i][v] = sum[i][v] + F32::load(r + i * e.residual_stride + v * F32::lanes, n);
    }
    const size_t n = left(kFull, tail_columns);
    PALM_UNROLL for (int i = 0; i < kRows; ++i)
      tail[i] = tail[i] + Tail::load(r + i * e.residual_stride + kFull * F32::lanes, n);
  }
  float* const c = g.c + row * g.ldc + column;
  const size_t ldc = g.ldc;
  const float low = e.low, high = e.high;
  PALM_UNROLL for (int v = 0; v < kFull; ++v) {
    const F32 slope = kPrelu ? F32::load(e.slope + column + v * F32::lanes) : F32::set(0.f);
    PALM_UNROLL for (int i = 0; i < kRows; ++i) {
      activate<kPrelu>(sum[i][v], slope, F32::set(low), F32::set(high))
          .store(c + static_cast<size_t>(i) * ldc + v * F32::lanes);
    }
  }
  const Tail slope =
      load_or_zero<Tail>(kPrelu ? e.slope + column + kFull * F32::lanes : nullptr, tail_columns);
  PALM_UNROLL for (int i = 0; i < kRows; ++i) {
    activate<kPrelu>(tail[i], slope, Tail::set(low), Tail::set(high))
        .store(c + static_cast<size_t>(i) * ldc + kFull * F32::lanes, tail_columns);
  }
  if (e.post) e.post(e.post_data, kRows, kFull * F32::lanes + tail_columns, c, g.ldc);
}

using Tile = void (*)(const Gemm& g, size_t row, size_t column, size_t tail_columns,
                      const float* b);

template <int kFull, class Tail, bool kPrelu>
struct Tiles {
  static constexpr const RowChoices& kRow = row_choices(kFull + (Tail::lanes != 0));
  static constexpr Tile kAll[kRowChoices] = {
      tile<kRow[0], kFull, Tail, kPrelu>, tile<kRow[1], kFull, Tail, kPrelu>,
      tile<kRow[2], kFull, Tail, kPrelu>, tile<kRow[3], kFull, Tail, kPrelu>,
      tile<kRow[4], kFull, Tail, kPrelu>, tile<kRow[5], kFull, Tail, kPrelu>};
};

template <int kFull, class Tail>
const Tile* find_width(bool prelu) {
  return prelu ? Tiles<kFull, Tail, true>::kAll : Tiles<kFull, Tail, false>::kAll;
}

template <int kFull>
const Tile* find_tail(size_t tail, bool prelu) {
  if constexpr (kFull < static_cast<int>(kMaxVectors)) {
    if constexpr (kHasHalf)
      if (tail && tail <= F32Half::lanes) return find_width<kFull, F32Half>(prelu);
    if (tail) return find_width<kFull, F32>(prelu);
  }
  if constexpr (kFull > 0) return find_width<kFull, NoTail>(prelu);
  else return nullptr;
}

// The tiles for a panel, by choice of rows.
const Tile* find_tiles(size_t columns, bool prelu) {
  const size_t tail = columns % F32::lanes;
  switch (columns / F32::lanes) {
    case 0: return find_tail<0>(tail, prelu);
    case 1: return find_tail<1>(tail, prelu);
    case 2: return find_tail<2>(tail, prelu);
    case 3: return find_tail<3>(tail, prelu);
    default: return find_tail<static_cast<int>(kMaxVectors)>(tail, prelu);
  }
}

struct Panel {
  size_t column, columns;
  const float* b;
  const Tile* tiles;
};

// All rows of `count` panels that are equally wide in vectors, side by side so that a's rows stay
// in L1.
void run_panels(const Gemm& g, const Panel* panels, size_t count) {
  const RowChoices& choices = row_choices(vectors_of(panels[0].columns));
  int choice = 0;
  for (size_t row = 0; row < g.m; row += static_cast<size_t>(choices[choice])) {
    while (row + static_cast<size_t>(choices[choice]) > g.m) ++choice;
    for (size_t i = 0; i < count; ++i) {
      const Panel& p = panels[i];
      p.tiles[choice](g, row, p.column, p.columns % F32::lanes, p.b);
    }
  }
}

}  // namespace

void PALM_FN(gemm_f32)(const Gemm& g) {
  constexpr size_t kMostPanels = 32, kBytesInL2 = 400 << 10;
  Panel panels[kMostPanels];
  const size_t depth = g.k * g.segments;
  const float* b = g.b;
  size_t column = 0, count = 0, bytes = 0;
  for (size_t index = 0; index < g.last_panel; ++index) {
    const size_t columns = panel_columns(g.n - column), floats = depth * panel_floats(columns);
    if (index >= g.first_panel) {
      const bool fits = count < kMostPanels && bytes + floats * sizeof(float) <= kBytesInL2;
      if (count && (!fits || vectors_of(columns) != vectors_of(panels[0].columns))) {
        run_panels(g, panels, count);
        count = bytes = 0;
      }
      panels[count++] = {column, columns, b, find_tiles(columns, g.epilogue.slope != nullptr)};
      bytes += floats * sizeof(float);
    }
    b += floats;
    column += columns;
  }
  if (count) run_panels(g, panels, count);
}

size_t PALM_SUFFIX(pack_gemm_f32, PALM_ISA_NAME)(size_t k, size_t n, const float* source,
                                                 size_t row_stride, size_t column_stride,
                                                 float* packed) {
  size_t floats = 0;
  for (size_t column = 0; column < n;) {
    const size_t columns = panel_columns(n - column), width = panel_floats(columns);
    for (size_t p = 0; packed && p < k; ++p) {
      const float* const from = source + p * row_stride + column * column_stride;
      float* const to = packed + floats + p * width;
      for (size_t j = 0; j < columns; ++j) to[j] = from[j * column_stride];
      for (size_t j = columns; j < width; ++j) to[j] = 0.f;
    }
    floats += k * width;
    column += columns;
  }
  return floats;
}

GemmPanel PALM_SUFFIX(panel_gemm_f32, PALM_ISA_NAME)(size_t n) {
  const size_t columns = panel_columns(n);
  return {columns, panel_floats(columns),
          static_cast<size_t>(row_choices(vectors_of(columns))[0])};
}

size_t PALM_SUFFIX(count_gemm_f32, PALM_ISA_NAME)(size_t n) {
  size_t count = 0;
  for (size_t column = 0; column < n; ++count) column += panel_columns(n - column);
  return count;
}

}  // namespace palm
