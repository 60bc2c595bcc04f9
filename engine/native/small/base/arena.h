#pragma once
// In place of base/arena.h: memory for packed weights is taken when a library starts, and is given
// back when it stops.
#include <cstddef>
#include <cstdint>

#include "base/bytes.h"

namespace palm {

// Uninitialised memory that begins on a cache line.
class Arena {
 public:
  Arena() = default;
  explicit Arena(size_t bytes);
  Arena(Arena&& other) noexcept : begin_(other.begin_), size_(other.size_) { other.begin_ = nullptr; }
  Arena& operator=(Arena&& other) noexcept;
  ~Arena();

  char* data() const {
    return begin_ ? reinterpret_cast<char*>(round_up(reinterpret_cast<uintptr_t>(begin_))) : nullptr;
  }
  Bytes bytes() const { return {data(), size_}; }
  float* floats() const { return reinterpret_cast<float*>(data()); }

 private:
  void* begin_ = nullptr;
  size_t size_ = 0;
};

}  // namespace palm
