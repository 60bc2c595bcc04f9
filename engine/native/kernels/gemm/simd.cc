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

// The rows of a tile: what the registers hold beside a row of b and an element of a.
constexpr int most_rows(size_t vectors) {
  constexpr int wide[] = {16, 14, 9, 6}, narrow[] = {12, 6, 4, 0};
  return (F32::registers == 32 ? wide : narrow)[vectors - 1];
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
      PALM_UNROLL for (int i = 0; i < kRows; ++i) sum[i][v] = start;
    }
    const Tail start =
        load_or_zero<Tail>(bias ? bias + kFull * F32::lanes : nullptr, tail_columns);
    PALM_UNROLL for (int i = 0; i < kRows; ++i) tail[i] = start;
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
      PALM_UNROLL for (int v = 0; v < kFull; ++v) y[v] = F32::load(b + v * F32::lanes);
      const Tail y_tail = Tail::load(b + kFull * F32::lanes);
      PALM_UNROLL for (int i = 0; i < kRows; ++i) {
        const ptrdiff_t offset = i % 4 == 3 ? lda3 : i % 4 * lda;
        const float x = *reinterpret_cast<const float*>(p[i / 4] + offset);
        PALM_UNROLL for (int v = 0; v < kFull; ++v) sum[i][v] = fma(F32::set(x), y[v], sum[i][v]);
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
  PALM_UNROLL for (int v = 0; v < kFull; ++v) {
    const F32 slope = kPrelu ? F32::load(e.slope + column + v * F32::lanes) : F32::set(0.f);
    PALM_UNROLL for (int i = 0; i < kRows; ++i) {
      activate<kPrelu>(sum[i][v], slope, F32::set(e.low), F32::set(e.high))
          .store(c + static_cast<size_t>(i) * ldc + v * F32::lanes);
    }
  }
  const Tail slope = load_or_zero<Tail>(
      kPrelu ? e.slope + column + kFull * F32::lanes : nullptr, tail_columns);
  PALM_UNROLL for (int i = 0; i < kRows; ++i) {
    activate<kPrelu>(tail[i], slope, Tail::set(e.low), Tail::set(e.high))
        .store(c + static_cast<size_t>(i) * ldc + kFull * F32::lanes, tail_columns);
  }
  if (e.post) e.post(e.post_data, kRows, kFull * F32::lanes + tail_columns, c, g.ldc);
}

using Tile = void (*)(const Gemm& g, size_t row, size_t column, size_t tail_columns,
                      const float* b);

template <int kRows, int kFull, class Tail, bool kPrelu>
Tile find_rows(int rows) {
  if constexpr (kRows == 0) return nullptr;
  else if (rows == kRows) return &tile<kRows, kFull, Tail, kPrelu>;
  else return find_rows<kRows - 1, kFull, Tail, kPrelu>(rows);
}

template <int kFull, class Tail>
Tile find_width(int rows, bool prelu) {
  constexpr int kMost = most_rows(kFull + (Tail::lanes != 0));
  return prelu ? find_rows<kMost, kFull, Tail, true>(rows)
               : find_rows<kMost, kFull, Tail, false>(rows);
}

template <int kFull>
Tile find_tail(int rows, size_t tail, bool prelu) {
  if constexpr (kFull < static_cast<int>(kMaxVectors)) {
    if constexpr (kHasHalf)
      if (tail && tail <= F32::lanes / 2) return find_width<kFull, F32Half>(rows, prelu);
    if (tail) return find_width<kFull, F32>(rows, prelu);
  }
  if constexpr (kFull > 0) return find_width<kFull, NoTail>(rows, prelu);
  else return nullptr;
}

Tile find_tile(int rows, size_t columns, bool prelu) {
  const size_t tail = columns % F32::lanes;
  switch (columns / F32::lanes) {
    case 0: return find_tail<0>(rows, tail, prelu);
    case 1: return find_tail<1>(rows, tail, prelu);
    case 2: return find_tail<2>(rows, tail, prelu);
    case 3: return find_tail<3>(rows, tail, prelu);
    default: return find_tail<static_cast<int>(kMaxVectors)>(rows, tail, prelu);
  }
}

// All rows of one panel in blocks of nearly the same size.
struct Panel {
  size_t column, columns;
  const float* b;
  size_t blocks, rows, larger;  // the first `larger` blocks have rows + 1
  Tile tile[2];                 // of `rows`, and of rows + 1

  void run(const Gemm& g, size_t block) const {
    const bool large = block < larger;
    const size_t row = block * rows + (large ? block : larger);
    tile[large](g, row, column, columns % F32::lanes, b);
  }
};

Panel make_panel(const Gemm& g, size_t column, const float* b) {
  Panel p;
  p.column = column;
  p.columns = panel_columns(g.n - column);
  p.b = b;
  const auto most = static_cast<size_t>(most_rows(vectors_of(p.columns)));
  p.blocks = (g.m + most - 1) / most;
  p.rows = g.m / p.blocks;
  p.larger = g.m % p.blocks;
  const bool prelu = g.epilogue.slope != nullptr;
  p.tile[0] = find_tile(static_cast<int>(p.rows), p.columns, prelu);
  p.tile[1] = p.larger ? find_tile(static_cast<int>(p.rows) + 1, p.columns, prelu) : nullptr;
  return p;
}

}  // namespace

void PALM_FN(gemm_f32)(const Gemm& g) {
  if (g.m == 0) return;
  constexpr size_t kMostPanels = 32, kPanelBytesInL2 = 400 << 10;
  Panel panels[kMostPanels];
  const size_t depth = g.k * g.segments;
  const float* b = g.b;
  size_t column = 0, index = 0;
  for (; index < g.first_panel; ++index) {
    const size_t columns = panel_columns(g.n - column);
    b += depth * panel_floats(columns);
    column += columns;
  }
  while (index < g.last_panel) {
    // As many panels as stay in L2, run together so that a's rows stay in L1.
    size_t count = 0, bytes = 0;
    do {
      const Panel& p = panels[count++] = make_panel(g, column, b);
      const size_t floats = depth * panel_floats(p.columns);
      b += floats;
      bytes += floats * sizeof(float);
      column += p.columns;
      ++index;
    } while (index < g.last_panel && count < kMostPanels && bytes <= kPanelBytesInL2 &&
             panels[count - 1].blocks == panels[0].blocks);
    // The last one may have another number of blocks: it then runs alone.
    const bool odd = panels[count - 1].blocks != panels[0].blocks;
    const size_t together = count - odd;
    for (size_t block = 0; block < panels[0].blocks; ++block)
      for (size_t i = 0; i < together; ++i) panels[i].run(g, block);
    if (odd)
      for (size_t block = 0; block < panels[together].blocks; ++block)
        panels[together].run(g, block);
  }
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

size_t PALM_SUFFIX(count_gemm_f32, PALM_ISA_NAME)(size_t n) {
  size_t count = 0;
  for (size_t column = 0; column < n; ++count) column += panel_columns(n - column);
  return count;
}

}  // namespace palm
