// MB/s of decoded bytes, by histogram, coding and size.
#include <cstdio>
#include <cstring>

#include "base/check.h"
#include "entropy/entropy.h"

namespace {

using namespace palm;

struct Histogram {
  const char* name;
  size_t planes;
  std::vector<uint8_t> (*bytes)(size_t count, Random& random);
};

// Sums of uniform numbers, nearly a bell.
float bell(Random& random) {
  float sum = 0;
  for (int i = 0; i < 6; ++i) sum += random.next();
  return sum * 0.7f;
}

std::vector<uint8_t> int8(size_t count, Random& random) {
  std::vector<uint8_t> values(count);
  for (uint8_t& v : values) v = static_cast<uint8_t>(static_cast<int>(bell(random) * 30));
  return values;
}

std::vector<uint8_t> pruned(size_t count, Random& random) {
  std::vector<uint8_t> values = int8(count, random);
  for (uint8_t& v : values)
    if (random.between(0, 9)) v = 0;
  return values;
}

std::vector<uint8_t> float32(size_t count, Random& random) {
  std::vector<uint8_t> values(count / 4 * 4);
  for (size_t i = 0; i < values.size(); i += 4) {
    const float v = bell(random) * 0.05f;
    std::memcpy(&values[i], &v, sizeof v);
  }
  return values;
}

}  // namespace

int main() {
  constexpr Histogram kHistograms[] = {
      {"int8", 1, int8}, {"int8, 90 % zeros", 1, pruned}, {"float32", 4, float32}};
  constexpr const char* kNames[] = {"plain", "huffman", "rans", "planes"};
  std::printf("%-18s %-8s %9s %7s %8s\n", "bytes", "coding", "size", "share", "MB/s");
  for (const Histogram& histogram : kHistograms) {
    for (const size_t count : {size_t{4} << 10, size_t{64} << 10, size_t{4} << 20}) {
      Random random;
      const std::vector<uint8_t> values = histogram.bytes(count, random);
      std::vector<uint8_t> to(values.size());
      for (const Coding coding : {Coding::kHuffman, Coding::kRans, Coding::kPlanes}) {
        if ((coding == Coding::kPlanes) != (histogram.planes > 1)) continue;
        const auto run = encode_bytes(coding, values.data(), values.size(), histogram.planes);
        const double seconds = best_seconds(
            [&] { decode_bytes(coding, run.data(), run.size(), to.data(), to.size()); }, 0.002, 10);
        std::printf("%-18s %-8s %9zu %6.1f%% %8.0f\n", histogram.name,
                    kNames[static_cast<int>(coding)], values.size(),
                    100.0 * static_cast<double>(run.size()) / static_cast<double>(values.size()),
                    static_cast<double>(values.size()) / seconds / 1e6);
      }
    }
  }
}
