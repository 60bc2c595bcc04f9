#pragma once
// Products of tiles: numbers lie in words of 4 bytes, four bytes or two of 16 bits each, and
// tiles are up to 16 rows of 16 words.
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace palm {
namespace {

constexpr size_t kTileRows = 16, kTileWords = 16, kTileBytes = kTileWords * 4;

// While it lives, the calling thread's tiles are two by two products: 0 to 3 are sums, [rows][16],
// 2 * i + j being of the i-th a and the j-th b; 4 and 5 are a, [rows][words]; 6 and 7 are b,
// [words][16]. Only one may live in a thread. Beginning costs some 200 cycles, and without an end
// each switch of threads would save the tiles.
class Tiles {
 public:
  // rows, words: 1 to 16.
  Tiles(size_t rows, size_t words) {
    // What the instruction reads. GCC knows of its first bytes only.
    alignas(64) struct {
      uint8_t palette = 1, start_row = 0, reserved[14] = {};
      uint16_t row_bytes[16] = {};
      uint8_t rows[16] = {};
    } shapes;
    for (size_t i = 0; i < 8; ++i) {
      shapes.row_bytes[i] = static_cast<uint16_t>((i == 4 || i == 5 ? words : kTileWords) * 4);
      shapes.rows[i] = static_cast<uint8_t>(i < 6 ? rows : words);
    }
    see_memory();
    _tile_loadconfig(&shapes);
  }
  ~Tiles() { _tile_release(); }
  Tiles(const Tiles&) = delete;
  Tiles& operator=(const Tiles&) = delete;

  // Before tiles are loaded from what the same function wrote: GCC does not know that they read.
  static void see_memory() { asm volatile("" ::: "memory"); }
};

}  // namespace
}  // namespace palm
