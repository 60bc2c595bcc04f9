#pragma once
#include <cstddef>

namespace palm {

constexpr size_t kAlignment = 64;

// `bytes` rounded up to whole cache lines.
inline size_t round_up(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// A run of bytes in memory.
struct Bytes {
  const char* data = nullptr;
  size_t size = 0;
};

}  // namespace palm
