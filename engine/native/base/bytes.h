#pragma once
#include <cstddef>
#include <cstdint>

namespace palm {

constexpr size_t kAlignment = 64;

// The most of something: nearly 2^bits, or a sixteenth of what 32 bits address, so that a few times
// as much can still be counted.
constexpr size_t limit(int bits) { return SIZE_MAX >> (sizeof(size_t) > 4 ? 64 - bits : 4); }

// `bytes` rounded up to whole cache lines.
inline size_t round_up(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// A run of bytes in memory.
struct Bytes {
  const char* data = nullptr;
  size_t size = 0;
};

}  // namespace palm
