#include "entropy/inflate.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/error.h"

namespace palm {
namespace {

constexpr unsigned kMostBits = 15, kTableBits = 10;
constexpr size_t kLiterals = 288, kDistances = 32;

[[noreturn]] __attribute__((noinline, cold)) void damaged() { fail(Fault::kModel, "damaged: deflated bytes do not fit"); }

// Takes bits from a run of bytes, the lowest of each first. Beyond its end are zeros to look at and
// nothing to take.
class Bits {
 public:
  explicit Bits(Bytes from) : from_(from) {}

  // At least 56, as far as there are so many.
  void fill() {
    if (from_.size >= sizeof word_) {
      uint64_t next;
      std::memcpy(&next, from_.data, sizeof next);
      word_ |= next << count_;
      const unsigned bytes = (63 - count_) / 8;
      from_ = {from_.data + bytes, from_.size - bytes};
      count_ += 8 * bytes;
      word_ &= ~uint64_t{0} >> (64 - count_);
      return;
    }
    for (; count_ <= 56 && from_.size; count_ += 8) {
      word_ |= uint64_t{static_cast<uint8_t>(*from_.data)} << count_;
      from_ = {from_.data + 1, from_.size - 1};
    }
  }

  uint64_t word() const { return word_; }

  void drop(unsigned count) {
    if (count > count_) damaged();
    word_ >>= count;
    count_ -= count;
  }

  // Up to 16, of those that there are.
  uint32_t take(unsigned count) {
    const auto value = static_cast<uint32_t>(word_ & ((1u << count) - 1));
    drop(count);
    return value;
  }

  // Up to 16; for what comes once a block.
  __attribute__((noinline)) uint32_t number(unsigned count) {
    if (count > count_) fill();
    return take(count);
  }

  // The bytes from the next whole one on.
  __attribute__((noinline)) Bytes rest() {
    drop(count_ % 8);
    from_ = {from_.data - count_ / 8, from_.size + count_ / 8};
    word_ = count_ = 0;
    return from_;
  }

  void skip(size_t bytes) { from_ = {from_.data + bytes, from_.size - bytes}; }

 private:
  Bytes from_;
  uint64_t word_ = 0;
  unsigned count_ = 0;
};

// A canonical Huffman code: short ones from a table, others bit by bit.
class Code {
 public:
  // As zlib does, takes an incomplete code only if it is of one bit at most, or of none.
  __attribute__((noinline)) void make(const uint8_t* lengths, size_t count,
                                      bool must_be_complete) {
    std::fill_n(counts_, kMostBits + 1, uint16_t{0});
    for (size_t i = 0; i < count; ++i) ++counts_[lengths[i]];
    counts_[0] = 0;
    int left = 1;
    unsigned most = 0;
    uint16_t offsets[kMostBits + 2] = {};
    uint32_t first[kMostBits + 2] = {};
    for (unsigned bits = 1; bits <= kMostBits; ++bits) {
      left = 2 * left - counts_[bits];
      if (left < 0) damaged();
      if (counts_[bits]) most = bits;
      offsets[bits + 1] = static_cast<uint16_t>(offsets[bits] + counts_[bits]);
      first[bits + 1] = (first[bits] + counts_[bits]) << 1;
    }
    if (left > 0 && (must_be_complete || most > 1)) damaged();
    std::fill_n(table_, size_t{1} << kTableBits, uint16_t{0});
    for (size_t symbol = 0; symbol < count; ++symbol) {
      const unsigned bits = lengths[symbol];
      if (!bits) continue;
      symbols_[offsets[bits]++] = static_cast<uint16_t>(symbol);
      uint32_t code = first[bits]++, reversed = 0;
      if (bits > kTableBits) continue;
      for (unsigned i = 0; i < bits; ++i, code >>= 1) reversed = reversed << 1 | (code & 1);
      for (size_t i = reversed; i < size_t{1} << kTableBits; i += size_t{1} << bits)
        table_[i] = static_cast<uint16_t>(symbol << 4 | bits);
    }
  }

  // The next symbol; `bits` has been filled.
  uint32_t next(Bits& bits) const {
    const uint16_t entry = table_[bits.word() & ((1u << kTableBits) - 1)];
    if (entry) {
      bits.drop(entry & 15);
      return entry >> 4;
    }
    return long_one(bits);
  }

 private:
  __attribute__((noinline)) uint32_t long_one(Bits& bits) const {
    uint64_t word = bits.word();
    int code = 0, first = 0, index = 0;
    for (unsigned length = 1; length <= kMostBits; ++length, word >>= 1) {
      code |= static_cast<int>(word & 1);
      const int count = counts_[length];
      if (code < first + count) {
        bits.drop(length);
        return symbols_[index + code - first];
      }
      index += count;
      first = (first + count) << 1;
      code <<= 1;
    }
    damaged();
  }

  uint16_t counts_[kMostBits + 1], symbols_[kLiterals], table_[size_t{1} << kTableBits];
};

class Inflater {
 public:
  Inflater(Bytes packed, char* to, size_t size) : bits_(packed), to_(to), left_(size) {}

  // Returns what lies behind the last block.
  Bytes run() {
    bool is_last;
    do {
      is_last = bits_.number(1);
      const uint32_t kind = bits_.number(2);
      if (kind == 0) stored();
      else if (kind == 1) fixed();
      else if (kind == 2) dynamic();
      else damaged();
    } while (!is_last);
    if (left_) damaged();
    return bits_.rest();
  }

 private:
  void stored() {
    const Bytes rest = bits_.rest();
    const uint32_t size = bits_.number(16);
    if ((bits_.number(16) ^ 0xffff) != size || size > rest.size - 4 || size > left_) damaged();
    const char* const from = bits_.rest().data;
    std::memcpy(to_, from, size);
    bits_.skip(size);
    to_ += size, left_ -= size, done_ += size;
  }

  void fixed() {
    uint8_t lengths[kLiterals];
    for (size_t i = 0; i < kLiterals; ++i)
      lengths[i] = i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8;
    literals_.make(lengths, kLiterals, true);
    std::fill_n(lengths, kDistances, uint8_t{5});
    distances_.make(lengths, kDistances, true);
    block();
  }

  void dynamic() {
    static constexpr uint8_t kOrder[] = {16, 17, 18, 0, 8,  7, 9,  6, 10, 5,
                                         11, 4,  12, 3, 13, 2, 14, 1, 15};
    const size_t literals = 257 + bits_.number(5), distances = 1 + bits_.number(5);
    if (literals > 286 || distances > 30) damaged();
    uint8_t lengths[kLiterals + kDistances] = {};
    for (size_t i = 0, n = 4 + bits_.number(4); i < n; ++i)
      lengths[kOrder[i]] = static_cast<uint8_t>(bits_.number(3));
    literals_.make(lengths, 19, true);
    const size_t all = literals + distances;
    for (size_t i = 0; i < all;) {
      bits_.fill();
      const uint32_t symbol = literals_.next(bits_);
      if (symbol < 16) {
        lengths[i++] = static_cast<uint8_t>(symbol);
        continue;
      }
      if (symbol == 16 && !i) damaged();
      const uint8_t value = symbol == 16 ? lengths[i - 1] : uint8_t{0};
      const size_t times = symbol == 16   ? 3 + bits_.number(2)
                           : symbol == 17 ? 3 + bits_.number(3)
                                          : 11 + bits_.number(7);
      if (times > all - i) damaged();
      std::fill_n(lengths + i, times, value);
      i += times;
    }
    if (!lengths[256]) damaged();
    literals_.make(lengths, literals, false);
    distances_.make(lengths + literals, distances, false);
    block();
  }

  void block() {
    static constexpr uint16_t kLengths[] = {3,  4,  5,  6,  7,  8,  9,  10, 11,  13,
                                            15, 17, 19, 23, 27, 31, 35, 43, 51,  59,
                                            67, 83, 99, 115, 131, 163, 195, 227, 258};
    for (;;) {
      bits_.fill();
      uint32_t symbol = literals_.next(bits_);
      if (symbol < 256) {
        if (!left_) damaged();
        *to_++ = static_cast<char>(symbol);
        --left_, ++done_;
        continue;
      }
      if (symbol == 256) return;
      symbol -= 257;
      if (symbol >= 29) damaged();
      const unsigned more = symbol < 8 || symbol == 28 ? 0 : (symbol - 4) / 4;
      const size_t length = kLengths[symbol] + bits_.take(more);
      const uint32_t place = distances_.next(bits_);
      if (place >= 30) damaged();
      const unsigned low = place < 4 ? 0 : place / 2 - 1;
      const size_t first = place < 4 ? place + 1 : 1 + ((2 + place % 2) << low);
      copy(first + bits_.take(low), length);
    }
  }

  void copy(size_t distance, size_t length) {
    if (length > left_ || distance > done_) damaged();
    left_ -= length, done_ += length;
    // What repeats itself grows with every part that is copied.
    for (const char* const from = to_ - distance; length;) {
      const size_t part = std::min(length, static_cast<size_t>(to_ - from));
      std::memcpy(to_, from, part);
      to_ += part, length -= part;
    }
  }

  Bits bits_;
  char* to_;
  size_t left_, done_ = 0;
  Code literals_, distances_;
};

uint32_t adler32(const char* data, size_t size) {
  constexpr uint32_t kModulus = 65521, kLanes = 16;
  constexpr size_t kMostAtOnce = 5552;  // sums of so many bytes fit in 32 bits
  uint32_t a = 1, b = 0;
  while (size) {
    const size_t part = std::min(size, kMostAtOnce);
    const auto* const x = reinterpret_cast<const uint8_t*>(data);
    // Every lane has sums of its own, so that the loop is of vectors.
    uint32_t sums[kLanes] = {}, sums_of_sums[kLanes] = {};
    size_t i = 0;
    for (; i + kLanes <= part; i += kLanes)
      for (uint32_t k = 0; k < kLanes; ++k) sums_of_sums[k] += sums[k], sums[k] += x[i + k];
    b += static_cast<uint32_t>(i) * a;
    for (uint32_t k = 0; k < kLanes; ++k) {
      b += kLanes * sums_of_sums[k] + (kLanes - k) * sums[k];
      a += sums[k];
    }
    for (; i < part; ++i) b += a += x[i];
    a %= kModulus, b %= kModulus;
    data += part, size -= part;
  }
  return b << 16 | a;
}

}  // namespace

std::unique_ptr<char[]> inflate(Bytes packed, size_t size) {
  const auto at = [&](size_t i) { return static_cast<uint32_t>(static_cast<uint8_t>(packed.data[i])); };
  constexpr uint32_t kDeflate = 8, kMostWindow = 7, kDictionary = 0x20;
  if (packed.size < 6 || at(0) % 16 != kDeflate || at(0) / 16 > kMostWindow ||
      (at(0) << 8 | at(1)) % 31 || (at(1) & kDictionary))
    damaged();
  std::unique_ptr<char[]> content(new char[size + 1]);
  Inflater inflater({packed.data + 2, packed.size - 2}, content.get(), size);
  const Bytes rest = inflater.run();
  uint32_t expected = 0;
  for (size_t i = 0; i < std::min<size_t>(rest.size, 4); ++i)
    expected = expected << 8 | static_cast<uint8_t>(rest.data[i]);
  if (rest.size != 4 || expected != adler32(content.get(), size)) damaged();
  return content;
}

}  // namespace palm
