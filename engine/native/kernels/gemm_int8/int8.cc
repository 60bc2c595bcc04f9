// As gemm/simd.cc, but four rows of b at a time: a packed row has fours of numbers, and four bytes
// of a are read as one word.
#include "base/int8.h"

#include "kernels/finish_int8.h"
#include "kernels/gemm_int8/gemm_int8.h"

namespace palm {
namespace {

struct NoTail {
  static constexpr size_t lanes = 0;
  static NoTail load(const int32_t*) { return {}; }
  void store(int32_t*) const {}
};

template <>
struct Quads<NoTail> {
  template <class Number>
  static Quads load(const Number*) {
    return {};
  }
  static Quads of(Quads<S32>) { return {}; }
  friend NoTail dot(Quads, Quads, NoTail) { return {}; }
};

using Number = Quads<S32>::Number;

// The rows that tiles of 1, 2 ... vectors have, and fewer for what is left of a matrix.
constexpr int kRowChoices = 3;
constexpr size_t kMostRows = 14;

constexpr size_t row_choice(size_t vectors, int choice) {
  const size_t fit = (F32::registers - vectors - kQuadRegisters) / vectors;
  const size_t most = fit < kMostRows ? fit : kMostRows;
  return choice == 0 ? most : choice == 1 ? (most + 1) / 2 : 1;
}

constexpr size_t vectors_of(size_t columns) { return (columns + S32::lanes - 1) / S32::lanes; }

size_t panel_columns(size_t left) {
  constexpr size_t most = kMaxVectors * S32::lanes;
  return left < most ? left : most;
}

// Fours of one packed row of a panel.
size_t panel_width(size_t columns) {
  const size_t tail = columns % S32::lanes;
  if (kHasHalf && tail && tail <= S32Half::lanes) return columns - tail + S32Half::lanes;
  return vectors_of(columns) * S32::lanes;
}

// Sums of a tile, in rows of `stride`, become bytes of c.
__attribute__((noinline)) void finish_rows(const GemmInt8& g, size_t row, size_t rows,
                                           size_t column, size_t columns, const int32_t* sums,
                                           size_t stride) {
  const EpilogueInt8& e = g.epilogue;
  finish(e, sums, stride, rows, columns, column,
         e.residual ? e.residual + row * e.residual_stride + column : nullptr,
         g.c + (row * g.ldc + column), g.ldc);
}

[[maybe_unused]] __attribute__((noinline)) void copy_rows(const uint8_t* from, size_t stride,
                                                          size_t rows, size_t columns, uint8_t* to,
                                                          size_t to_stride) {
  const size_t words = columns / 4 * 4;
  for (; rows > 0; --rows, from += stride, to += to_stride) {
    for (size_t j = 0; j < words; j += 4) __builtin_memcpy(to + j, from + j, 4);
    for (size_t j = words; j < columns; ++j) to[j] = from[j];
  }
}

uint32_t quad_at(const uint8_t* p) {
  uint32_t quad;
  __builtin_memcpy(&quad, p, sizeof quad);
  return quad;
}

// kRows of one vector's sums to bytes, four at a time.
template <int kRows, class S>
PALM_INLINE void store_rows(ByteRange range, const S* sums, const float* scale, uint8_t* y,
                            size_t stride) {
  if constexpr (S::lanes != 0) {
    constexpr int kNow = kRows < 4 ? kRows : 4;
    store_bytes_of_rows(Rows<kNow>(), range, sums, scale, y, stride);
    if constexpr (kRows > 4) store_rows<kRows - 4>(range, sums + 4, scale, y + 4 * stride, stride);
  }
}

// Rows [row, row + kRows) of the panel of `columns` columns at `column`: kFull vectors and a Tail,
// the last of which may be wider than what is left.
template <int kRows, int kFull, class Tail>
void tile(const GemmInt8& g, size_t row, size_t column, size_t columns, const char* packed) {
  constexpr int kSum = kFull ? kFull : 1, kPointers = (kRows + 3) / 4;
  constexpr size_t kTail = kFull * S32::lanes, kWidth = kTail + Tail::lanes;
  const EpilogueInt8& e = g.epilogue;
  const Number* b = reinterpret_cast<const Number*>(packed);
  S32 sum[kSum][kRows];
  Tail tail[kRows];
  PALM_UNROLL for (int v = 0; v < kFull; ++v) {
    const S32 start = S32::load(e.bias + column + static_cast<size_t>(v) * S32::lanes);
    PALM_UNROLL for (int i = 0; i < kRows; ++i)
      sum[v][i] = start;
  }
  const Tail start = Tail::load(e.bias + column + kTail);
  PALM_UNROLL for (int i = 0; i < kRows; ++i)
    tail[i] = start;
  // One pointer for four rows, at p, p + lda, p + 2 * lda and p + 3 * lda.
  ptrdiff_t lda = static_cast<ptrdiff_t>(g.lda), lda3 = lda * 3;
  PALM_PIN(lda);
  PALM_PIN(lda3);
  const size_t quads = (g.k + 3) / 4;
  for (size_t s = 0; s < g.segments; ++s) {
    const uint8_t* p[kPointers];
    PALM_UNROLL for (int i = 0; i < kPointers; ++i)
      p[i] = g.a[s] + (row + static_cast<size_t>(i) * 4) * g.lda;
    const Number* const end = b + quads * kWidth * 4;
    do {
      Quads<S32> y[kSum];
      PALM_UNROLL for (int v = 0; v < kFull; ++v)
        y[v] = Quads<S32>::load(b + static_cast<size_t>(v) * S32::lanes * 4);
      const auto y_tail = Quads<Tail>::load(b + kTail * 4);
      PALM_UNROLL for (int i = 0; i < kRows; ++i) {
        const auto x = Quads<S32>::set(quad_at(p[i / 4] + (i % 4 == 3 ? lda3 : i % 4 * lda)));
        PALM_UNROLL for (int v = 0; v < kFull; ++v)
          sum[v][i] = dot(x, y[v], sum[v][i]);
        tail[i] = dot(Quads<Tail>::of(x), y_tail, tail[i]);
      }
      PALM_UNROLL for (int i = 0; i < kPointers; ++i) {
        p[i] += sizeof(uint32_t);
        PALM_PIN(p[i]);
      }
      b += kWidth * 4;
    } while (b != end);
  }
  if constexpr (kHasBytesOfRows) {
    if (e.is_plain && !e.residual) {
      const ByteRange range = range_of(e);
      alignas(64) uint8_t room[kRows * kWidth];
      const bool straight = columns == kWidth;
      uint8_t* const c = (g.c + (row * g.ldc + column)).bytes();
      uint8_t* const y = straight ? c : room;
      const size_t stride = straight ? g.ldc : kWidth;
      PALM_UNROLL for (int v = 0; v < kFull; ++v) {
        const size_t at = static_cast<size_t>(v) * S32::lanes;
        store_rows<kRows>(range, sum[v], e.scale + column + at, y + at, stride);
      }
      store_rows<kRows>(range, tail, e.scale + column + kTail, y + kTail, stride);
      if (!straight) copy_rows(room, kWidth, kRows, columns, c, g.ldc);
      return;
    }
  }
  // A whole vector is read where a row ends with a part of one.
  alignas(64) int32_t sums[kRows * kWidth + S32::lanes];
  PALM_UNROLL for (int i = 0; i < kRows; ++i) {
    int32_t* const to = sums + static_cast<size_t>(i) * kWidth;
    PALM_UNROLL for (int v = 0; v < kFull; ++v)
      sum[v][i].store(to + static_cast<size_t>(v) * S32::lanes);
    tail[i].store(to + kTail);
  }
  finish_rows(g, row, kRows, column, columns, sums, kWidth);
}

using Tile = void (*)(const GemmInt8& g, size_t row, size_t column, size_t columns, const char* b);

template <int kFull, class Tail>
struct Tiles {
  static constexpr size_t kVectors = kFull + (Tail::lanes != 0);
  static constexpr Tile kAll[kRowChoices] = {tile<row_choice(kVectors, 0), kFull, Tail>,
                                             tile<row_choice(kVectors, 1), kFull, Tail>,
                                             tile<1, kFull, Tail>};
};

// The tiles for a panel of kFull vectors or more, by choice of rows.
template <int kFull = 0>
const Tile* find_tiles(size_t width) {
  constexpr size_t kWidth = kFull * S32::lanes;
  if constexpr (kFull > 0) {
    if (width == kWidth) return Tiles<kFull, NoTail>::kAll;
  }
  if constexpr (kFull < kMaxVectors) {
    if constexpr (kHasHalf) {
      if (width == kWidth + S32Half::lanes) return Tiles<kFull, S32Half>::kAll;
    }
    return find_tiles<kFull + 1>(width);
  }
  return nullptr;
}

struct Panel {
  size_t column, columns;
  const char* b;
  const Tile* tiles;
};

// All rows of `count` panels that are equally wide in vectors, side by side so that a's rows stay
// in L1. The last tile may begin before the one above it ends: those rows come out the same.
void run_panels(const GemmInt8& g, const Panel* panels, size_t count) {
  const size_t vectors = vectors_of(panels[0].columns);
  for (size_t row = 0; row < g.m;) {
    const size_t left = g.m - row;
    int choice = 0;
    while (row_choice(vectors, choice) > left && row_choice(vectors, choice) > g.m) ++choice;
    while (choice + 1 < kRowChoices && row_choice(vectors, choice + 1) >= left) ++choice;
    const size_t rows = row_choice(vectors, choice);
    if (rows > left) row = g.m - rows;
    for (size_t i = 0; i < count; ++i) {
      const Panel& p = panels[i];
      p.tiles[choice](g, row, p.column, p.columns, p.b);
    }
    row += rows;
  }
}

size_t panel_bytes(size_t quads, size_t columns) {
  return quads * panel_width(columns) * 4 * sizeof(Number);
}

}  // namespace

void PALM_FN(gemm_int8)(const GemmInt8& g) {
  constexpr size_t kMostPanels = 32, kBytesInL2 = 400 << 10;
  Panel panels[kMostPanels];
  const size_t quads = (g.k + 3) / 4 * g.segments;
  const char* b = g.b;
  size_t column = 0, count = 0, bytes = 0;
  for (size_t index = 0; index < g.last_panel; ++index) {
    const size_t columns = panel_columns(g.n - column), size = panel_bytes(quads, columns);
    if (index >= g.first_panel) {
      const bool fits = count < kMostPanels && bytes + size <= kBytesInL2;
      if (count && (!fits || vectors_of(columns) != vectors_of(panels[0].columns))) {
        run_panels(g, panels, count);
        count = bytes = 0;
      }
      panels[count++] = {column, columns, b, find_tiles(panel_width(columns))};
      bytes += size;
    }
    b += size;
    column += columns;
  }
  if (count) run_panels(g, panels, count);
}

__attribute__((cold)) size_t PALM_SUFFIX(pack_gemm_int8,
                                         PALM_ISA_NAME)(size_t segments, size_t k, size_t n,
                                                        const int8_t* source, size_t column_stride,
                                                        char* packed) {
  const size_t quads = (k + 3) / 4;
  size_t bytes = 0;
  for (size_t column = 0; column < n;) {
    const size_t columns = panel_columns(n - column), width = panel_width(columns);
    Number* to = reinterpret_cast<Number*>(packed + bytes);
    for (size_t s = 0; packed && s < segments; ++s) {
      for (size_t p = 0; p < quads * 4; ++p) {
        const int8_t* const from = source + column * column_stride + s * k + p;
        for (size_t j = 0; j < width; ++j) {
          const size_t vector = j / S32::lanes * S32::lanes * 4;
          to[vector + Quads<S32>::place(j % S32::lanes, p % 4)] =
              j < columns && p < k ? from[j * column_stride] : Number{0};
        }
        if (p % 4 == 3) to += width * 4;
      }
    }
    bytes += segments * panel_bytes(quads, columns);
    column += columns;
  }
  return bytes;
}

GemmPanel PALM_SUFFIX(panel_gemm_int8, PALM_ISA_NAME)(size_t n) {
  const size_t columns = panel_columns(n);
  return {columns, panel_width(columns), row_choice(vectors_of(columns), 0)};
}

size_t PALM_SUFFIX(count_gemm_int8, PALM_ISA_NAME)(size_t n) {
  size_t count = 0;
  for (size_t column = 0; column < n; ++count) column += panel_columns(n - column);
  return count;
}

int32_t PALM_SUFFIX(offset_gemm_int8, PALM_ISA_NAME)() { return kOffset; }

}  // namespace palm
