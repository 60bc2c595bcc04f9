#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>
#include <queue>

#include "entropy/entropy.h"
#include "entropy/table.h"

namespace palm {
namespace {

using Run = std::vector<uint8_t>;
using Counts = std::array<size_t, 256>;

template <class T>
void append(Run& run, T value) {
  const auto* const bytes = reinterpret_cast<const uint8_t*>(&value);
  run.insert(run.end(), bytes, bytes + sizeof value);
}

// Bits, from the lowest up; the last byte is filled with zeros.
class BitWriter {
 public:
  explicit BitWriter(Run& run) : run_(run) {}
  ~BitWriter() {
    if (used_) run_.push_back(static_cast<uint8_t>(word_));
  }
  BitWriter(const BitWriter&) = delete;
  BitWriter& operator=(const BitWriter&) = delete;

  void bits(unsigned value, int count) {
    word_ |= uint64_t{value} << used_;
    for (used_ += count; used_ >= 8; used_ -= 8, word_ >>= 8)
      run_.push_back(static_cast<uint8_t>(word_));
  }

  void length(int length, int before) {
    const int change = length - before;
    const int folded = change < 0 ? -2 * change - 1 : 2 * change;
    for (int i = 0; i < folded; ++i) bits(1, 1);
    bits(0, 1);
  }

 private:
  Run& run_;
  uint64_t word_ = 0;
  int used_ = 0;
};

Counts count_of(const uint8_t* from, size_t count) {
  Counts counts{};
  for (size_t i = 0; i < count; ++i) ++counts[from[i]];
  return counts;
}

struct Range {
  size_t first, last;
};

Range range_of(const Counts& counts) {
  Range r{255, 0};
  for (size_t s = 0; s < 256; ++s)
    if (counts[s]) r = {std::min(r.first, s), s};
  return r;
}

size_t kinds_of(const Counts& counts) {
  return static_cast<size_t>(
      std::count_if(counts.begin(), counts.end(), [](size_t n) { return n > 0; }));
}

// Huffman's lengths; counts are made more alike until none is too long.
void code_lengths(Counts counts, uint8_t (&lengths)[256]) {
  struct Tree {
    size_t count;
    int left, right;  // of a leaf: its symbol, and -1
  };
  for (;;) {
    std::vector<Tree> trees;
    using Entry = std::pair<size_t, size_t>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<Entry>> heads;
    for (size_t s = 0; s < 256; ++s) {
      if (!counts[s]) continue;
      heads.emplace(counts[s], trees.size());
      trees.push_back({counts[s], static_cast<int>(s), -1});
    }
    while (heads.size() > 1) {
      const size_t a = heads.top().second;
      heads.pop();
      const size_t b = heads.top().second;
      heads.pop();
      heads.emplace(trees[a].count + trees[b].count, trees.size());
      trees.push_back({trees[a].count + trees[b].count, static_cast<int>(a), static_cast<int>(b)});
    }
    std::vector<int> depths(trees.size());
    int deepest = 0;
    for (size_t i = trees.size(); i--;) {
      if (trees[i].right < 0) {
        const int depth = std::max(depths[i], 1);
        deepest = std::max(deepest, depth);
        lengths[trees[i].left] = static_cast<uint8_t>(std::min(depth, 255));
      } else {
        depths[static_cast<size_t>(trees[i].left)] = depths[i] + 1;
        depths[static_cast<size_t>(trees[i].right)] = depths[i] + 1;
      }
    }
    if (deepest <= kMostBits) return;
    for (size_t& n : counts)
      if (n) n = n / 2 + 1;
  }
}

Run encode_huffman(const uint8_t* from, size_t count) {
  const Counts counts = count_of(from, count);
  const Range r = range_of(counts);
  uint8_t lengths[256] = {};
  code_lengths(counts, lengths);
  Run run{static_cast<uint8_t>(r.first), static_cast<uint8_t>(r.last)};
  {
    BitWriter table(run);
    int before = 0;
    for (size_t s = r.first; s <= r.last; ++s) {
      table.length(lengths[s], before);
      before = lengths[s];
    }
  }
  if (r.first == r.last) return run;
  const std::vector<uint16_t> codes = canonical_codes(lengths);
  const size_t lanes = lanes_for(count), each = (count + lanes - 1) / lanes;
  const size_t sizes = run.size();
  run.resize(sizes + 4 * (lanes - 1));
  for (size_t i = 0; i < lanes; ++i) {
    const size_t begin = run.size();
    {
      BitWriter stream(run);
      const uint8_t* const end = from + std::min(count, (i + 1) * each);
      for (const uint8_t* at = from + i * each; at < end; ++at)
        stream.bits(codes[*at], lengths[*at]);
    }
    const auto size = static_cast<uint32_t>(run.size() - begin);
    if (i + 1 < lanes) std::memcpy(&run[sizes + 4 * i], &size, sizeof size);
  }
  return run;
}

// Frequencies that add up to `total`, as close to the counts as the cost in bits wants it.
std::array<uint32_t, 256> frequencies_of(const Counts& counts, size_t count, uint32_t total) {
  std::array<uint32_t, 256> frequencies{};
  int64_t left = total;
  for (size_t s = 0; s < 256; ++s) {
    if (!counts[s]) continue;
    const double share = static_cast<double>(counts[s]) * total / static_cast<double>(count);
    frequencies[s] = std::max(1u, static_cast<uint32_t>(share + 0.5));
    left -= frequencies[s];
  }
  // One more or less where that gains the most, or costs the least.
  for (; left; left += left > 0 ? -1 : 1) {
    size_t best = 256;
    double best_gain = -INFINITY;
    for (size_t s = 0; s < 256; ++s) {
      const uint32_t f = frequencies[s];
      if (!f || (left < 0 && f == 1)) continue;
      const double after = left > 0 ? f + 1 : f - 1;
      const double gain = static_cast<double>(counts[s]) * std::log2(after / f);
      if (gain > best_gain) best = s, best_gain = gain;
    }
    frequencies[best] += left > 0 ? 1 : -1u;
  }
  return frequencies;
}

Run encode_rans(const uint8_t* from, size_t count, const Counts& counts, int bits) {
  const uint32_t total = 1u << bits;
  const auto frequencies = frequencies_of(counts, count, total);
  const Range r = range_of(counts);
  Run run{static_cast<uint8_t>(r.first), static_cast<uint8_t>(r.last), static_cast<uint8_t>(bits)};
  std::array<uint32_t, 256> starts{};
  {
    BitWriter table(run);
    int before = 0;
    for (size_t s = r.first; s <= r.last; ++s) {
      int length = 0;
      while (frequencies[s] >> length) ++length;
      table.length(length, before);
      if (length) table.bits(frequencies[s] - (1u << (length - 1)), length - 1);
      before = length;
    }
  }
  std::partial_sum(frequencies.begin(), frequencies.end() - 1, starts.begin() + 1);
  const size_t lanes = lanes_for(count);
  uint32_t states[4] = {kRansLow, kRansLow, kRansLow, kRansLow};
  std::vector<uint16_t> words;  // last first
  for (size_t i = count; i--;) {
    uint32_t& state = states[i % lanes];
    const uint32_t f = frequencies[from[i]];
    if (state >= uint64_t{f} << (32 - bits)) {
      words.push_back(static_cast<uint16_t>(state));
      state >>= 16;
    }
    state = (state / f << bits) + state % f + starts[from[i]];
  }
  for (size_t i = 0; i < lanes; ++i) append(run, states[i]);
  for (size_t i = words.size(); i--;) append(run, words[i]);
  return run;
}

// With as many bits for the frequencies as make it smallest.
Run encode_rans(const uint8_t* from, size_t count) {
  const Counts counts = count_of(from, count);
  const size_t kinds = kinds_of(counts);
  Run best;
  if (kinds < 2) return best;
  for (int bits = kLeastRansBits; bits <= kMostBits; ++bits) {
    if (kinds > size_t{1} << (bits - 1)) continue;
    Run run = encode_rans(from, count, counts, bits);
    if (best.empty() || run.size() < best.size()) best = std::move(run);
  }
  return best;
}

Run encode_planes(const uint8_t* from, size_t count, size_t planes) {
  if (planes < 2 || planes > 8 || count % planes) return {};
  const size_t each = count / planes;
  Run run{static_cast<uint8_t>(planes)}, body, plane(each);
  for (size_t p = 0; p < planes; ++p) {
    for (size_t i = 0; i < each; ++i) plane[i] = from[i * planes + p];
    Coding best = Coding::kPlain;
    Run smallest = plane;
    for (const Coding coding : {Coding::kHuffman, Coding::kRans}) {
      Run coded = encode_bytes(coding, plane.data(), each);
      if (coded.empty() || coded.size() >= smallest.size()) continue;
      best = coding;
      smallest = std::move(coded);
    }
    run.push_back(static_cast<uint8_t>(best));
    append(run, static_cast<uint32_t>(smallest.size()));
    body.insert(body.end(), smallest.begin(), smallest.end());
  }
  run.insert(run.end(), body.begin(), body.end());
  return run;
}

}  // namespace

std::vector<uint8_t> encode_bytes(Coding coding, const uint8_t* from, size_t count, size_t planes) {
  if (!count) return {};
  switch (coding) {
    case Coding::kPlain: return {from, from + count};
    case Coding::kHuffman: return encode_huffman(from, count);
    case Coding::kRans: return encode_rans(from, count);
    case Coding::kPlanes: return encode_planes(from, count, planes);
  }
  return {};
}

}  // namespace palm
