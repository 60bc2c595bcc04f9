#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "entropy/entropy.h"
#include "entropy/table.h"

namespace palm {
namespace {

[[noreturn]] void damaged() { fail(Fault::kModel, "damaged: not a run of coded bytes"); }

template <class T>
T load(const uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

struct Span {
  const uint8_t* data;
  size_t size;

  const uint8_t* take(size_t bytes) {
    if (bytes > size) damaged();
    const uint8_t* const begin = data;
    data += bytes;
    size -= bytes;
    return begin;
  }
};

// The bits of a table.
class Bits {
 public:
  explicit Bits(Span& span) : span_(span) {}

  unsigned bit() {
    if (left_ == 0) {
      byte_ = *span_.take(1);
      left_ = 8;
    }
    --left_;
    const unsigned value = byte_ & 1;
    byte_ >>= 1;
    return value;
  }

  unsigned bits(int count) {
    unsigned value = 0;
    for (int i = 0; i < count; ++i) value |= bit() << i;
    return value;
  }

  // The next length, from that before.
  int length(int before) {
    int folded = 0;
    while (bit()) {
      if (++folded > 2 * kMostBits) damaged();
    }
    const int length = before + (folded & 1 ? -(folded + 1) / 2 : folded / 2);
    if (length < 0 || length > kMostBits + 1) damaged();
    return length;
  }

 private:
  Span& span_;
  unsigned byte_ = 0, left_ = 0;
};

struct Range {
  int first, last;
};

Range range(Span& span) {
  const Range r{*span.take(1), *span.take(1)};
  if (r.first > r.last) damaged();
  return r;
}

struct HuffmanTable {
  int bits;
  uint16_t entries[1 << kMostBits];  // symbol, and above it the code's length

  explicit HuffmanTable(Span& span) {
    const Range r = range(span);
    uint8_t lengths[256] = {};
    Bits table(span);
    int length = 0;
    bits = 0;
    for (int s = r.first; s <= r.last; ++s) {
      length = table.length(length);
      if (length > kMostBits) damaged();
      lengths[s] = static_cast<uint8_t>(length);
      bits = std::max(bits, length);
    }
    const std::vector<uint16_t> codes = canonical_codes(lengths);
    size_t filled = 0;
    for (int s = r.first; s <= r.last; ++s) {
      if (!lengths[s]) continue;
      const size_t step = size_t{1} << lengths[s];
      const size_t slots = size_t{1} << (bits - lengths[s]);
      filled += slots;
      if (filled > size_t{1} << bits) damaged();
      const auto entry = static_cast<uint16_t>(s | lengths[s] << 8);
      for (size_t i = codes[static_cast<size_t>(s)], n = slots; n; --n, i += step)
        entries[i] = entry;
    }
    // One symbol alone has a code of one bit, which is not written; else no code is left over.
    single = bits == 1 && filled == 1;
    if (!single && (bits == 0 || filled != size_t{1} << bits)) damaged();
  }

  bool single;
};

// One stream of Huffman codes; past its end there are zeros, which `finish` finds.
struct Stream {
  Stream(const uint8_t* data, size_t size) : at(data), end(data + size) {}

  bool has_word() const { return end - at >= 8; }

  // 56 bits or more.
  void refill_word() {
    word |= load<uint64_t>(at) << count;
    at += (63 - count) >> 3;
    count |= 56;
  }

  void refill_bytes() {
    for (; count <= 56; count += 8) {
      if (at < end) word |= static_cast<uint64_t>(*at++) << count;
      else ++past;
    }
  }

  uint8_t symbol(const HuffmanTable& table, uint64_t mask) {
    const uint16_t entry = table.entries[word & mask];
    word >>= entry >> 8;
    count -= entry >> 8;
    return static_cast<uint8_t>(entry);
  }

  void finish() const {
    // Nothing beyond the end was used, and nothing is left but the last byte's rest.
    const ptrdiff_t unused = static_cast<ptrdiff_t>(count / 8);
    if (end - at + unused != past) damaged();
  }

  const uint8_t *at, *end;
  uint64_t word = 0;
  unsigned count = 0;
  ptrdiff_t past = 0;
};

void decode_huffman(Span span, uint8_t* to, size_t count) {
  const HuffmanTable table(span);
  if (table.single) {
    if (span.size) damaged();
    std::fill_n(to, count, static_cast<uint8_t>(table.entries[0]));
    return;
  }
  const uint64_t mask = (uint64_t{1} << table.bits) - 1;
  const size_t lanes = lanes_for(count), each = (count + lanes - 1) / lanes;
  constexpr size_t kMostLanes = 4;
  size_t sizes[kMostLanes];
  for (size_t i = 0; i + 1 < lanes; ++i) sizes[i] = load<uint32_t>(span.take(4));
  const auto stream = [&](size_t i) {
    const size_t size = i + 1 < lanes ? sizes[i] : span.size;
    return Stream(span.take(size), size);
  };
  constexpr size_t kSymbols = 4;  // of a word: 48 bits at most
  size_t done = 0;
  Stream streams[kMostLanes] = {stream(0), lanes > 1 ? stream(1) : Stream(span.data, 0),
                                lanes > 2 ? stream(2) : Stream(span.data, 0),
                                lanes > 3 ? stream(3) : Stream(span.data, 0)};
  if (lanes == kMostLanes) {
    Stream a = streams[0], b = streams[1], c = streams[2], d = streams[3];
    uint8_t* out = to;
    const size_t last = count - 3 * each;
    for (; done + kSymbols <= last && a.has_word() && b.has_word() && c.has_word() && d.has_word();
         done += kSymbols, out += kSymbols) {
      a.refill_word();
      b.refill_word();
      c.refill_word();
      d.refill_word();
      for (size_t i = 0; i < kSymbols; ++i) {
        out[i] = a.symbol(table, mask);
        out[each + i] = b.symbol(table, mask);
        out[2 * each + i] = c.symbol(table, mask);
        out[3 * each + i] = d.symbol(table, mask);
      }
    }
    streams[0] = a;
    streams[1] = b;
    streams[2] = c;
    streams[3] = d;
  }
  for (size_t i = 0; i < lanes; ++i) {
    const size_t end = std::min(count, (i + 1) * each);
    Stream s = streams[i];
    for (size_t j = i * each + done; j < end; ++j) {
      s.refill_bytes();
      to[j] = s.symbol(table, mask);
    }
    s.finish();
  }
}

struct RansTable {
  int bits;
  uint32_t entries[1 << kMostBits];  // symbol, slot - start, frequency: of 8, 12 and 12 bits

  explicit RansTable(Span& span) {
    const Range r = range(span);
    bits = *span.take(1);
    if (bits < kLeastRansBits || bits > kMostBits) damaged();
    Bits table(span);
    const unsigned total = 1u << bits;
    unsigned start = 0;
    int length = 0;
    for (int s = r.first; s <= r.last; ++s) {
      length = table.length(length);
      if (!length) continue;
      const unsigned frequency = 1u << (length - 1) | table.bits(length - 1);
      if (frequency > total - start || frequency == total) damaged();
      for (unsigned i = 0; i < frequency; ++i)
        entries[start + i] = static_cast<uint32_t>(s) | i << 8 | frequency << 20;
      start += frequency;
    }
    if (start != total) damaged();
  }
};

struct Words {
  const uint8_t *at, *end;
};

inline uint8_t rans_symbol(const RansTable& table, uint32_t mask, uint32_t& state) {
  const uint32_t entry = table.entries[state & mask];
  state = (entry >> 20) * (state >> table.bits) + (entry >> 8 & 0xfff);
  return static_cast<uint8_t>(entry);
}

// `kChecked`: there may be no word left.
template <bool kChecked>
inline void renew(uint32_t& state, Words& words) {
  // Whether it is low cannot be foretold: no branch.
  const uint32_t low = state < kRansLow;
  if (kChecked && low && words.end - words.at < 2) damaged();
  if (kChecked && !low) return;
  state = state << (low << 4) | (load<uint16_t>(words.at) & (0 - low));
  words.at += low << 1;
}

void decode_rans(Span span, uint8_t* to, size_t count) {
  const RansTable table(span);
  const uint32_t mask = (1u << table.bits) - 1;
  const size_t lanes = lanes_for(count);
  uint32_t states[4] = {};
  for (size_t i = 0; i < lanes; ++i) {
    states[i] = load<uint32_t>(span.take(4));
    if (states[i] < kRansLow) damaged();
  }
  Words words{span.data, span.data + span.size};
  size_t done = 0;
  if (lanes == 4) {
    uint32_t a = states[0], b = states[1], c = states[2], d = states[3];
    for (; done + 4 <= count && words.end - words.at >= 8; done += 4) {
      to[done] = rans_symbol(table, mask, a);
      to[done + 1] = rans_symbol(table, mask, b);
      to[done + 2] = rans_symbol(table, mask, c);
      to[done + 3] = rans_symbol(table, mask, d);
      renew<false>(a, words);
      renew<false>(b, words);
      renew<false>(c, words);
      renew<false>(d, words);
    }
    states[0] = a;
    states[1] = b;
    states[2] = c;
    states[3] = d;
  }
  for (; done < count; ++done) {
    uint32_t& state = states[done % lanes];
    to[done] = rans_symbol(table, mask, state);
    renew<true>(state, words);
  }
  if (words.at != words.end) damaged();
  for (size_t i = 0; i < lanes; ++i)
    if (states[i] != kRansLow) damaged();
}

void decode_planes(Span span, uint8_t* to, size_t count) {
  const size_t planes = *span.take(1);
  if (planes < 2 || planes > 8 || count % planes) damaged();
  const size_t each = count / planes;
  Span heads{span.take(5 * planes), 5 * planes};
  std::vector<uint8_t> plane(each);
  for (size_t p = 0; p < planes; ++p) {
    const auto coding = static_cast<Coding>(*heads.take(1));
    if (coding >= Coding::kPlanes) damaged();
    const size_t size = load<uint32_t>(heads.take(4));
    decode_bytes(coding, span.take(size), size, plane.data(), each);
    uint8_t* out = to + p;
    for (size_t i = 0; i < each; ++i, out += planes) *out = plane[i];
  }
  if (span.size) damaged();
}

}  // namespace

void decode_bytes(Coding coding, const uint8_t* from, size_t size, uint8_t* to, size_t count) {
  switch (coding) {
    case Coding::kPlain:
      if (size != count) damaged();
      if (count) std::memcpy(to, from, count);
      return;
    case Coding::kHuffman: return decode_huffman({from, size}, to, count);
    case Coding::kRans: return decode_rans({from, size}, to, count);
    case Coding::kPlanes: return decode_planes({from, size}, to, count);
  }
  damaged();
}

}  // namespace palm
