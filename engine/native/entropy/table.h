#pragma once
// What coder and decoder share.
#include <cstddef>
#include <cstdint>
#include <vector>

namespace palm {

constexpr int kMostBits = 12;  // of a Huffman code, and of rANS' frequencies together
constexpr int kLeastRansBits = 8;
constexpr uint32_t kRansLow = 1u << 16;

// Streams or lanes of a run.
constexpr size_t lanes_for(size_t count) { return count < 1024 ? 1 : 4; }

// The canonical code of each symbol that has a length, its first bit lowest: short ones first,
// among equals in the order of the symbols.
inline std::vector<uint16_t> canonical_codes(const uint8_t (&lengths)[256]) {
  std::vector<uint16_t> codes(256);
  unsigned next = 0;
  for (int length = 1; length <= kMostBits; ++length, next <<= 1) {
    for (size_t s = 0; s < 256; ++s) {
      if (lengths[s] != length) continue;
      unsigned reversed = 0;
      for (int i = 0; i < length; ++i) reversed |= (next >> i & 1) << (length - 1 - i);
      codes[s] = static_cast<uint16_t>(reversed);
      ++next;
    }
  }
  return codes;
}

}  // namespace palm
