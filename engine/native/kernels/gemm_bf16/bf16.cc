// As gemm/simd.cc, but two rows of b at a time: a packed row has pairs of numbers, and a pair of a
// is read as one word.
#include "base/simd.h"
#include "kernels/gemm_bf16/gemm_bf16.h"

namespace palm {
namespace {

struct NoTail {
  static constexpr size_t lanes = 0;
  static NoTail load(const float*, size_t = 0) { return {}; }
  void store(float*) const {}
  static NoTail set(float) { return {}; }
  friend NoTail operator+(NoTail, NoTail) { return {}; }
  friend NoTail fma(NoTail, NoTail, NoTail) { return {}; }
  friend NoTail max(NoTail, NoTail) { return {}; }
  friend NoTail min(NoTail, NoTail) { return {}; }
};

void store(NoTail, Bf16*) {}
NoTail load(const Bf16*, NoTail*) { return {}; }

template <>
struct Pairs<NoTail> {
  static Pairs load(const Bf16*) { return {}; }
  static Pairs set(uint32_t) { return {}; }
  friend NoTail dot(Pairs, Pairs, NoTail) { return {}; }
};

constexpr size_t kMaxVectors = 4;

// The rows that tiles of 1, 2 ... vectors have, and fewer for what is left of a matrix.
constexpr int kRowChoices = 3;
using RowChoices = size_t[kRowChoices];
constexpr RowChoices kTileRows[] = {{16, 6, 1}, {14, 6, 1}, {9, 4, 1}, {6, 3, 1}};

constexpr const RowChoices& row_choices(size_t vectors) { return kTileRows[vectors - 1]; }

constexpr size_t vectors_of(size_t columns) { return (columns + F32::lanes - 1) / F32::lanes; }

// The width of the next panel when `left` columns are left: wide ones first, but no narrow rest.
size_t panel_columns(size_t left) {
  const size_t vectors = vectors_of(left);
  if (vectors <= kMaxVectors) return left;
  return (vectors < 8 ? 2 : 4) * F32::lanes;
}

// Pairs of one packed row of a panel.
size_t panel_pairs(size_t columns) {
  const size_t tail = columns % F32::lanes;
  if (tail && tail <= F32Half::lanes) return columns - tail + F32Half::lanes;
  return vectors_of(columns) * F32::lanes;
}

template <class V>
V load_or_zero(const float* p, size_t n) {
  return p ? V::load(p, n) : V::set(0.f);
}

template <class V>
V prelu(V x, V slope) {
  return fma(min(V::set(0.f), x), slope, max(V::set(0.f), x));
}

template <class V>
V clip(V x, V low, V high) {
  return min(high, max(low, x));
}

// Bias and residual of the tile's sums.
__attribute__((noinline)) void begin_rows(const EpilogueBf16& e, size_t row, size_t rows,
                                          size_t column, size_t columns, float* sum,
                                          size_t stride) {
  const float* const bias = e.plain.bias ? e.plain.bias + column : nullptr;
  const size_t channels = e.residual_channels > column ? e.residual_channels - column : 0;
  for (size_t j = 0; j < columns; j += F32::lanes) {
    const size_t n = columns - j < F32::lanes ? columns - j : F32::lanes;
    const size_t left = channels > j ? channels - j : 0, added = left < n ? left : n;
    const F32 start = load_or_zero<F32>(bias ? bias + j : nullptr, n);
    EitherIn r = e.residual + (row * e.residual_stride + column + j);
    for (size_t i = 0; i < rows; ++i, r = r + e.residual_stride) {
      const F32 z = r.is_narrow ? load(r.narrow(), added, static_cast<F32*>(nullptr))
                                : F32::load(r.floats(), added);
      (start + z).store(sum + i * stride + j, n);
    }
  }
}

// What becomes of rows that cannot go straight from registers into c.
__attribute__((noinline)) void end_rows(const GemmBf16& g, size_t row, size_t rows, size_t column,
                                        size_t columns, float* sum, size_t stride) {
  const Epilogue& e = g.epilogue.plain;
  if (e.post) e.post(e.post_data, rows, columns, sum, stride);
  EitherOut c = g.c + (row * g.ldc + column);
  for (size_t i = 0; i < rows; ++i, c = c + g.ldc, sum += stride) {
    for (size_t j = 0; j < columns; j += F32::lanes) {
      const size_t n = columns - j < F32::lanes ? columns - j : F32::lanes;
      const F32 x = F32::load(sum + j, n);
      if (c.is_narrow) store(x, c.narrow() + j, n);
      else x.store(c.floats() + j, n);
    }
  }
}

uint32_t pair_at(const char* p) {
  uint32_t pair;
  __builtin_memcpy(&pair, p, sizeof pair);
  return pair;
}

// Rows [row, row + kRows) of the panel of `columns` columns at `column`: kFull vectors and a Tail,
// the last of which may be wider than what is left.
template <int kRows, int kFull, class Tail>
void tile(const GemmBf16& g, size_t row, size_t column, size_t columns, const Bf16* b) {
  constexpr int kSum = kFull ? kFull : 1, kPointers = (kRows + 3) / 4;
  constexpr size_t kTail = kFull * F32::lanes, kWidth = kTail + Tail::lanes;
  const Epilogue& e = g.epilogue.plain;
  const size_t tail_columns = columns < kTail ? 0 : columns - kTail;
  const auto left = [&](size_t v) {
    const size_t n = columns - v * F32::lanes;
    return n < F32::lanes ? n : F32::lanes;
  };
  alignas(64) float floats[kRows * kWidth];
  F32 sum[kRows][kSum];
  Tail tail[kRows];
  const EitherIn residual = g.epilogue.residual;
  const size_t residual_stride = g.epilogue.residual_stride;
  if (residual.is_narrow && columns == kWidth && g.epilogue.residual_channels >= column + columns) {
    const float* const bias = e.bias ? e.bias + column : nullptr;
    PALM_UNROLL for (size_t v = 0; v < kFull; ++v) {
      const F32 start = load_or_zero<F32>(bias ? bias + v * F32::lanes : nullptr, F32::lanes);
      const Bf16* z = residual.narrow() + row * residual_stride + column + v * F32::lanes;
      PALM_UNROLL for (int i = 0; i < kRows; ++i, z += residual_stride)
        sum[i][v] = start + load(z, static_cast<F32*>(nullptr));
    }
    const Tail start = load_or_zero<Tail>(bias ? bias + kTail : nullptr, Tail::lanes);
    const Bf16* z = residual.narrow() + row * residual_stride + column + kTail;
    PALM_UNROLL for (int i = 0; i < kRows; ++i, z += residual_stride)
      tail[i] = start + load(z, static_cast<Tail*>(nullptr));
  } else if (residual.data) {
    begin_rows(g.epilogue, row, kRows, column, columns, floats, kWidth);
    PALM_UNROLL for (size_t i = 0; i < kRows; ++i) {
      PALM_UNROLL for (size_t v = 0; v < kFull; ++v)
        sum[i][v] = F32::load(floats + i * kWidth + v * F32::lanes);
      tail[i] = Tail::load(floats + i * kWidth + kTail);
    }
  } else {
    const float* const bias = e.bias ? e.bias + column : nullptr;
    PALM_UNROLL for (size_t v = 0; v < kFull; ++v) {
      const F32 start = load_or_zero<F32>(bias ? bias + v * F32::lanes : nullptr, left(v));
      PALM_UNROLL for (int i = 0; i < kRows; ++i) { sum[i][v] = start; }
    }
    const Tail start = load_or_zero<Tail>(bias ? bias + kTail : nullptr, tail_columns);
    PALM_UNROLL for (int i = 0; i < kRows; ++i) { tail[i] = start; }
  }
  // One pointer for four rows, at p, p + lda, p + 2 * lda and p + 3 * lda.
  ptrdiff_t lda = static_cast<ptrdiff_t>(g.lda * sizeof(Bf16)), lda3 = lda * 3;
  PALM_PIN(lda);
  PALM_PIN(lda3);
  for (size_t s = 0; s < g.segments; ++s) {
    const char* p[kPointers];
    PALM_UNROLL for (int i = 0; i < kPointers; ++i)
      p[i] = reinterpret_cast<const char*>(g.a[s] + (row + static_cast<size_t>(i) * 4) * g.lda);
    const Bf16* const end = b + g.k * kWidth;
    do {
      Pairs<F32> y[kSum];
      PALM_UNROLL for (size_t v = 0; v < kFull; ++v)
        y[v] = Pairs<F32>::load(b + v * F32::lanes * 2);
      const auto y_tail = Pairs<Tail>::load(b + kTail * 2);
      PALM_UNROLL for (int i = 0; i < kRows; ++i) {
        const uint32_t x = pair_at(p[i / 4] + (i % 4 == 3 ? lda3 : i % 4 * lda));
        PALM_UNROLL for (int v = 0; v < kFull; ++v)
          sum[i][v] = dot(Pairs<F32>::set(x), y[v], sum[i][v]);
        tail[i] = dot(Pairs<Tail>::set(x), y_tail, tail[i]);
      }
      PALM_UNROLL for (int i = 0; i < kPointers; ++i) {
        p[i] += sizeof(uint32_t);
        PALM_PIN(p[i]);
      }
      b += kWidth * 2;
    } while (b != end);
  }
  if (e.slope) {
    const float* const slopes = e.slope + column;
    PALM_UNROLL for (size_t v = 0; v < kFull; ++v) {
      const F32 slope = F32::load(slopes + v * F32::lanes, left(v));
      PALM_UNROLL for (int i = 0; i < kRows; ++i) { sum[i][v] = prelu(sum[i][v], slope); }
    }
    const Tail slope = Tail::load(slopes + kTail, tail_columns);
    PALM_UNROLL for (int i = 0; i < kRows; ++i) { tail[i] = prelu(tail[i], slope); }
  } else {
    const float low = e.low, high = e.high;
    PALM_UNROLL for (int i = 0; i < kRows; ++i) {
      PALM_UNROLL for (int v = 0; v < kFull; ++v)
        sum[i][v] = clip(sum[i][v], F32::set(low), F32::set(high));
      tail[i] = clip(tail[i], Tail::set(low), Tail::set(high));
    }
  }
  if (g.c.is_narrow && !e.post && columns == kWidth) {
    const size_t ldc = g.ldc;
    Bf16* to = g.c.narrow() + row * ldc + column;
    PALM_UNROLL for (int i = 0; i < kRows; ++i, to += ldc) {
      PALM_UNROLL for (int v = 0; v < kFull; ++v) { store(sum[i][v], to + v * F32::lanes); }
      store(tail[i], to + kTail);
    }
    return;
  }
  const bool straight = !g.c.is_narrow && columns == kWidth;
  const size_t stride = straight ? g.ldc : kWidth;
  float* const y = straight ? g.c.floats() + row * stride + column : floats;
  float* to = y;
  PALM_UNROLL for (int i = 0; i < kRows; ++i, to += stride) {
    PALM_UNROLL for (int v = 0; v < kFull; ++v) { sum[i][v].store(to + v * F32::lanes); }
    tail[i].store(to + kTail);
  }
  if (!straight) return end_rows(g, row, kRows, column, columns, floats, kWidth);
  if (e.post) e.post(e.post_data, kRows, columns, y, stride);
}

using Tile = void (*)(const GemmBf16& g, size_t row, size_t column, size_t columns, const Bf16* b);

template <int kFull, class Tail>
struct Tiles {
  static constexpr const RowChoices& kRow = row_choices(kFull + (Tail::lanes != 0));
  static constexpr Tile kAll[kRowChoices] = {tile<kRow[0], kFull, Tail>, tile<kRow[1], kFull, Tail>,
                                             tile<kRow[2], kFull, Tail>};
};

// Of kFull vectors and, where half a vector is a tail, one more of these.
template <int kFull>
const Tile* find_tail(bool has_tail) {
  if constexpr (kHasHalf) {
    if (has_tail) return Tiles<kFull, F32Half>::kAll;
  }
  (void)has_tail;
  return Tiles < kFull ? kFull : 1, NoTail > ::kAll;
}

// The tiles for a panel, by choice of rows.
const Tile* find_tiles(size_t columns) {
  const size_t pairs = panel_pairs(columns);
  const bool has_tail = pairs % F32::lanes != 0;
  switch (pairs / F32::lanes) {
    case 0: return find_tail<0>(has_tail);
    case 1: return find_tail<1>(has_tail);
    case 2: return find_tail<2>(has_tail);
    case 3: return find_tail<3>(has_tail);
    default: return Tiles<4, NoTail>::kAll;
  }
}

struct Panel {
  size_t column, columns;
  const Bf16* b;
  const Tile* tiles;
};

// All rows of `count` panels that are equally wide in vectors, side by side so that a's rows stay
// in L1. The last tile may begin before the one above it ends: those rows come out the same.
void run_panels(const GemmBf16& g, const Panel* panels, size_t count) {
  const RowChoices& choices = row_choices(vectors_of(panels[0].columns));
  for (size_t row = 0; row < g.m;) {
    const size_t left = g.m - row;
    int choice = 0;
    while (choices[choice] > left && choices[choice] > g.m) ++choice;
    while (choice + 1 < kRowChoices && choices[choice + 1] >= left) ++choice;
    if (choices[choice] > left) row = g.m - choices[choice];
    for (size_t i = 0; i < count; ++i) {
      const Panel& p = panels[i];
      p.tiles[choice](g, row, p.column, p.columns, p.b);
    }
    row += choices[choice];
  }
}

}  // namespace

void PALM_FN(gemm_bf16)(const GemmBf16& g) {
  constexpr size_t kMostPanels = 32, kBytesInL2 = 400 << 10;
  Panel panels[kMostPanels];
  const size_t depth = g.k * g.segments;
  const Bf16* b = g.b;
  size_t column = 0, count = 0, bytes = 0;
  for (size_t index = 0; index < g.last_panel; ++index) {
    const size_t columns = panel_columns(g.n - column), numbers = depth * panel_pairs(columns);
    if (index >= g.first_panel) {
      const bool fits = count < kMostPanels && bytes + numbers * sizeof(Bf16) <= kBytesInL2;
      if (count && (!fits || vectors_of(columns) != vectors_of(panels[0].columns))) {
        run_panels(g, panels, count);
        count = bytes = 0;
      }
      panels[count++] = {column, columns, b, find_tiles(columns)};
      bytes += numbers * sizeof(Bf16);
    }
    b += numbers;
    column += columns;
  }
  if (count) run_panels(g, panels, count);
}

size_t PALM_SUFFIX(pack_gemm_bf16, PALM_ISA_NAME)(size_t k, size_t n, const float* source,
                                                  size_t row_stride, size_t column_stride,
                                                  Bf16* packed) {
  size_t numbers = 0;
  for (size_t column = 0; column < n;) {
    const size_t columns = panel_columns(n - column), width = panel_pairs(columns);
    for (size_t p = 0; packed && p < k; ++p) {
      const float* const from = source + p * row_stride + column * column_stride;
      Bf16* const to = packed + numbers + p / 2 * width * 2;
      for (size_t j = 0; j < width; ++j)
        to[Pairs<F32>::place(j, p % 2)] = narrow(j < columns ? from[j * column_stride] : 0.f);
    }
    numbers += k * width;
    column += columns;
  }
  return numbers;
}

GemmPanel PALM_SUFFIX(panel_gemm_bf16, PALM_ISA_NAME)(size_t n) {
  const size_t columns = panel_columns(n);
  return {columns, panel_pairs(columns), row_choices(vectors_of(columns))[0]};
}

size_t PALM_SUFFIX(count_gemm_bf16, PALM_ISA_NAME)(size_t n) {
  size_t count = 0;
  for (size_t column = 0; column < n; ++count) column += panel_columns(n - column);
  return count;
}

}  // namespace palm
