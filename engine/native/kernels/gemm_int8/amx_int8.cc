// Blocks of two by two tiles of sums. While the products of one are computed, the sums of the one
// before become bytes, which takes as long where k is a few hundred.
#include "base/int8.h"
#include "kernels/finish_int8.h"
#include "kernels/gemm_int8/gemm_int8.h"

namespace palm {
namespace {

constexpr size_t kColumns = S32::lanes, kPanelColumns = 2 * kColumns;

size_t least(size_t a, size_t b) { return a < b ? a : b; }

// How the k bytes of a segment are cut: into steps of as many words. The last one ends where the
// row does, and has zeros for weights that the step before it had as well.
struct Steps {
  size_t count, words, last;

  explicit Steps(size_t k) {
    const size_t all = (k + 3) / 4;
    count = (all + kTileWords - 1) / kTileWords;
    words = least(all, kTileWords);
    last = (all - words) * 4;
  }
  // Where in a row a step begins.
  size_t begin(size_t step) const { return least(step * kTileBytes, last); }
  size_t tile_bytes() const { return words * kColumns * 4; }
};

struct Block {
  size_t rows[2];  // where its tiles begin
  size_t column;
  int across, down;
};

// The sums of a block, which become bytes a part at a time.
class Finishing {
 public:
  static constexpr size_t kPartRows = 4, kParts = kTileRows / kPartRows;  // of a tile

  explicit Finishing(const GemmInt8& g)
      : g_(g),
        tile_rows_(least(g.m, kTileRows)),
        is_plain_(g.epilogue.is_plain && !g.epilogue.residual && tile_rows_ >= kPartRows) {}

  // Where the sums of the next block go, [tile][kTileRows][kColumns], when all parts of the one
  // before are finished.
  int32_t* begin(const Block& block) {
    block_ = block;
    next_ = 0;
    parts_ = static_cast<size_t>(block.across * block.down) * kParts;
    return sums_;
  }

  PALM_INLINE void parts(size_t count) {
    const ByteRange range = range_of(g_.epilogue);
    size_t index = next_;
    next_ = least(next_ + count, parts_);
    for (const size_t end = next_; index < end; ++index) part(index, range);
  }
  void all() { parts(parts_); }

 private:
  PALM_INLINE void part(size_t index, ByteRange range) const {
    const size_t across = static_cast<size_t>(block_.across), tile = index / kParts;
    const size_t rows = least(tile_rows_, kPartRows);
    // The last one may begin before the one above it ends.
    const size_t first = least(index % kParts * kPartRows, tile_rows_ - rows);
    const size_t row = block_.rows[tile / across] + first;
    const size_t column = block_.column + tile % across * kColumns;
    const int32_t* const sums = sums_ + (tile * kTileRows + first) * kColumns;
    const size_t columns = least(g_.n - column, kColumns);
    if (!is_plain_ || columns < kColumns) return any_part(sums, row, rows, column, columns);
    S32 each[kPartRows];
    PALM_UNROLL for (size_t i = 0; i < kPartRows; ++i)
      each[i] = S32::load(sums + i * kColumns);
    store_bytes_of_rows(Rows<kPartRows>(), range, each, g_.epilogue.scale + column,
                        (g_.c + (row * g_.ldc + column)).bytes(), g_.ldc);
  }

  __attribute__((noinline)) void any_part(const int32_t* sums, size_t row, size_t rows,
                                          size_t column, size_t columns) const {
    const EpilogueInt8& e = g_.epilogue;
    finish(e, sums, kColumns, rows, columns, column,
           e.residual ? e.residual + row * e.residual_stride + column : nullptr,
           g_.c + (row * g_.ldc + column), g_.ldc);
  }

  const GemmInt8& g_;
  const size_t tile_rows_;
  const bool is_plain_;
  Block block_ = {};
  size_t next_ = 0, parts_ = 0;
  alignas(64) int32_t sums_[4 * kTileRows * kColumns];
};

// The sums of a block, b being its panel.
template <int kDown, int kAcross>
void multiply(const GemmInt8& g, const Steps& steps, const Block& block, const char* b,
              Finishing& finishing) {
  constexpr size_t kTiles = kDown * kAcross, kNumbers = kTileRows * kColumns;
  const size_t all = steps.count * g.segments, tile_bytes = steps.tile_bytes();
  const ptrdiff_t lda = static_cast<ptrdiff_t>(g.lda);
  const int32_t* const bias = g.epilogue.bias + block.column;
  const size_t parts = (4 * Finishing::kParts + all - 1) / all;
  _tile_loadd(0, bias, 0);
  if constexpr (kAcross == 2) _tile_loadd(1, bias + kColumns, 0);
  if constexpr (kDown == 2) _tile_loadd(2, bias, 0);
  if constexpr (kTiles == 4) _tile_loadd(3, bias + kColumns, 0);
  for (size_t s = 0; s < g.segments; ++s) {
    for (size_t step = 0; step < steps.count; ++step, b += kAcross * tile_bytes) {
      const uint8_t* const a = g.a[s] + steps.begin(step);
      _tile_loadd(6, b, kTileBytes);
      _tile_loadd(4, a + block.rows[0] * g.lda, lda);
      _tile_dpbusd(0, 4, 6);
      if constexpr (kAcross == 2) {
        _tile_loadd(7, b + tile_bytes, kTileBytes);
        _tile_dpbusd(1, 4, 7);
      }
      if constexpr (kDown == 2) {
        _tile_loadd(5, a + block.rows[1] * g.lda, lda);
        _tile_dpbusd(2, 5, 6);
      }
      if constexpr (kTiles == 4) _tile_dpbusd(3, 5, 7);
      finishing.parts(parts);
    }
  }
  finishing.all();
  int32_t* const sums = finishing.begin(block);
  _tile_stored(0, sums, kTileBytes);
  if constexpr (kAcross == 2) _tile_stored(1, sums + kNumbers, kTileBytes);
  if constexpr (kDown == 2) _tile_stored(2, sums + kAcross * kNumbers, kTileBytes);
  if constexpr (kTiles == 4) _tile_stored(3, sums + 3 * kNumbers, kTileBytes);
}

using Multiply = void (*)(const GemmInt8& g, const Steps& steps, const Block& block, const char* b,
                          Finishing& finishing);
constexpr Multiply kMultiply[2][2] = {{multiply<1, 1>, multiply<1, 2>},
                                      {multiply<2, 1>, multiply<2, 2>}};

// All rows of the panels [first, last), whose b stays in L2.
void run_panels(const GemmInt8& g, const Steps& steps, size_t first, size_t last,
                Finishing& finishing) {
  const size_t strip_bytes = g.segments * steps.count * steps.tile_bytes();
  for (size_t row = 0; row < g.m; row += 2 * kTileRows) {
    Block block = {{row, row + kTileRows}, 0, 2, row + kTileRows < g.m ? 2 : 1};
    // The last tile may begin before the one above it ends: those rows come out the same.
    size_t& bottom = block.rows[block.down - 1];
    if (bottom + kTileRows > g.m) bottom = g.m - least(g.m, kTileRows);
    for (size_t panel = first; panel < last; ++panel) {
      block.column = panel * kPanelColumns;
      block.across = block.column + kColumns < g.n ? 2 : 1;
      kMultiply[block.down - 1][block.across - 1](g, steps, block, g.b + panel * 2 * strip_bytes,
                                                  finishing);
    }
  }
}

}  // namespace

void PALM_FN(gemm_int8)(const GemmInt8& g) {
  constexpr size_t kBytesInL2 = 1 << 20;
  const Steps steps(g.k);
  const size_t panel_bytes = 2 * g.segments * steps.count * steps.tile_bytes();
  const size_t most = kBytesInL2 / panel_bytes ? kBytesInL2 / panel_bytes : 1;
  Finishing finishing(g);
  const Tiles tiles(least(g.m, kTileRows), steps.words);
  for (size_t panel = g.first_panel; panel < g.last_panel; panel += most)
    run_panels(g, steps, panel, least(panel + most, g.last_panel), finishing);
  finishing.all();
}

// For each panel of two strips of 16 columns, each segment and each step a tile a strip,
// [words][16][4].
__attribute__((cold)) size_t PALM_SUFFIX(pack_gemm_int8,
                                         PALM_ISA_NAME)(size_t segments, size_t k, size_t n,
                                                        const int8_t* source, size_t column_stride,
                                                        char* packed) {
  const Steps steps(k);
  const size_t strips = (n + kColumns - 1) / kColumns, all = segments * steps.count;
  for (size_t tile = 0; packed && tile < strips * all; ++tile) {
    const size_t panel = tile / (2 * all), across = least(strips - panel * 2, 2);
    const size_t at = tile % (2 * all) / across, step = at % steps.count;
    const size_t column = panel * kPanelColumns + tile % (2 * all) % across * kColumns;
    for (size_t i = 0; i < steps.tile_bytes(); ++i) {
      const size_t j = column + i / 4 % kColumns;
      const size_t p = steps.begin(step) + i / 4 / kColumns * 4 + i % 4;
      const bool counts = j < n && p < k && p >= step * kTileBytes;
      *packed++ = counts ? static_cast<char>(source[j * column_stride + at / steps.count * k + p])
                         : char{0};
    }
  }
  return strips * all * steps.tile_bytes();
}

GemmPanel PALM_SUFFIX(panel_gemm_int8, PALM_ISA_NAME)(size_t n) {
  const size_t columns = least(n, kPanelColumns);
  return {columns, (columns + kColumns - 1) / kColumns * kColumns, 2 * kTileRows};
}

size_t PALM_SUFFIX(count_gemm_int8, PALM_ISA_NAME)(size_t n) {
  return (n + kPanelColumns - 1) / kPanelColumns;
}

int32_t PALM_SUFFIX(offset_gemm_int8, PALM_ISA_NAME)() { return kOffset; }

}  // namespace palm
