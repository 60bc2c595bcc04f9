#pragma once
#include <algorithm>
#include <cstddef>

namespace palm {

// Tiles in blocks of at most about `most`, as many for each thread. But for a thread's last one,
// they are of whole register tiles of `rows` tiles.
class TileBlocks {
 public:
  TileBlocks(size_t tiles, size_t most, int threads, size_t rows)
      : tiles_(tiles), threads_(static_cast<size_t>(threads)), rows_(rows) {
    each_ = std::max<size_t>(1, (tiles + most * threads_ - 1) / (most * threads_));
  }

  size_t count() const { return each_ * threads_; }

  // Of blocks [0, count()]: the first tile that does not lie before it.
  size_t begin(size_t block) const {
    const size_t thread = block / each_, first = tiles_ * thread / threads_;
    const size_t size = tiles_ * (thread + 1) / threads_ - first;
    return first + size * (block % each_) / each_ / rows_ * rows_;
  }

  size_t largest() const {
    size_t tiles = 0;
    for (size_t i = 0; i < count(); ++i) tiles = std::max(tiles, begin(i + 1) - begin(i));
    return tiles;
  }

 private:
  size_t tiles_, threads_, rows_, each_;
};

}  // namespace palm
