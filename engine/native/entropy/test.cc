#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "entropy/entropy.h"
#include "entropy/inflate.h"
#include "entropy/stored.h"

namespace {

using namespace palm;
using Run = std::vector<uint8_t>;

Run bytes(size_t count, int kind, Random& random) {
  Run values(count);
  for (uint8_t& value : values) {
    const uint32_t bits = random.bits();
    switch (kind) {
      case 0: value = static_cast<uint8_t>(bits); break;
      case 1: value = static_cast<uint8_t>(__builtin_ctz(bits | 1u << 31)); break;
      case 2: value = bits % 97 ? 0 : 255; break;
      case 3: value = 7; break;
      default: value = static_cast<uint8_t>(128 + __builtin_popcount(bits) - 16);
    }
  }
  return values;
}

// Runs lie in memory of their own size, so that a sanitizer sees what reads or writes beyond.
bool decodes(Coding coding, const Run& run, size_t count, const Run* expected) {
  const std::unique_ptr<uint8_t[]> from(new uint8_t[run.size()]), to(new uint8_t[count]);
  std::copy(run.begin(), run.end(), from.get());
  if (refuses([&] { decode_bytes(coding, from.get(), run.size(), to.get(), count); })) return false;
  return !expected || std::memcmp(to.get(), expected->data(), count) == 0;
}

void check(Coding coding, size_t count, int kind, Random& random) {
  const size_t planes = size_t{1} << random.between(1, 3);
  if (coding == Coding::kPlanes) count = count / planes * planes;
  const Run values = bytes(count, kind, random);
  const Run run = encode_bytes(coding, values.data(), count, planes);
  const bool none = count == 0 || (coding == Coding::kRans && (kind == 3 || count < 2));
  if (run.empty()) {
    const bool one_kind = none || std::set<uint8_t>(values.begin(), values.end()).size() == 1;
    PALM_CHECK(none || (coding == Coding::kRans && one_kind), "nothing from %zu bytes", count);
    return;
  }
  PALM_CHECK(decodes(coding, run, count, &values), "coding %d, kind %d: %zu bytes",
             static_cast<int>(coding), kind, count);
  for (int i = 0; i < 40; ++i) {
    Run bad = run;
    for (size_t n = random.between(1, 3); n; --n)
      bad[random.between(0, bad.size() - 1)] = static_cast<uint8_t>(random.bits());
    if (random.between(0, 3) == 0) bad.resize(random.between(0, bad.size()));
    decodes(coding, bad, count, nullptr);
    decodes(coding, bad, random.between(0, 2 * count), nullptr);
  }
}

// Recipes of random parts over random data: refused, or decoded within their memory.
void check_recipes(Random& random, int rounds) {
  const Run values = bytes(600, 4, random);
  const Run run = encode_bytes(Coding::kRans, values.data(), values.size());
  for (int round = 0; round < rounds; ++round) {
    std::string recipe;
    const auto put = [&](auto value) {
      recipe.append(reinterpret_cast<const char*>(&value), sizeof value);
    };
    const auto put_run = [&] {
      put(uint64_t{random.between(0, 3) ? 0 : random.between(0, run.size())});
      put(uint64_t{random.between(0, 3) ? run.size() : random.between(0, 600)});
      put(static_cast<uint8_t>(random.between(0, 4)));
    };
    for (int depth = 0; depth < 3; ++depth) {
      const auto kind = static_cast<uint8_t>(random.between(0, 5));
      put(kind);
      if (kind == 2)
        put(uint64_t{random.between(0, 9)}), put(static_cast<uint32_t>(random.between(0, 9)));
      if (kind == 3)
        put(static_cast<uint8_t>(random.between(0, 4))), put(uint64_t{random.between(0, 700)});
      if (kind == 4)
        put(static_cast<uint8_t>(random.between(0, 17))),
            put(static_cast<uint32_t>(random.between(0, 300)));
      put_run();
      if (kind == 4) put_run();
    }
    const std::unique_ptr<char[]> data(new char[run.size()]);
    std::memcpy(data.get(), run.data(), run.size());
    Bytes left{recipe.data(), recipe.size()};
    const size_t count = random.between(0, 3) ? random.between(0, 700) : 150;
    const std::unique_ptr<float[]> to(new float[count]);
    refuses([&] {
      read_stored(left, {data.get(), run.size()}, DType::kFloat32, count)->decode(to.get());
    });
  }
}

// What zlib makes of the first `count` bytes of i * i % 37 * (i % 3): a block that is stored, one of
// the fixed code, and one with codes of its own.
constexpr struct {
  size_t count;
  const char* hex;
} kDeflated[] = {
    {16,
     "7801011000efff000108001032000c36001a140015160006fc00e7"},
    {48,
     "78016360e460103062e0316390126110156350b26190b161601663501461603763503162e0e460606062e054"
     "60509160603701004dc90331"},
    {400,
     "78daedcdcd0d40300080d18f8a9f1269a4444b0471726c441c7a6a1cec3f910d4ce02df0887294a33ab19ab6"
     "63f58c1ed1b168b293cd51e41053cc6c3dd9c1b2236ec68b35a50dd89aea41354490349887a14606ca94e962"
     "ba2977e4c1d063669298bffbee5ef33c1c28"}};

// From and to memory of its own size; false where it throws.
bool inflates(const Run& packed, const Run& expected) {
  const std::unique_ptr<char[]> from(new char[packed.size()]);
  std::copy(packed.begin(), packed.end(), from.get());
  return !refuses([&] {
    const auto content = inflate({from.get(), packed.size()}, expected.size());
    PALM_CHECK(std::equal(expected.begin(), expected.end(),
                          reinterpret_cast<const uint8_t*>(content.get())),
               "inflated to other bytes");
  });
}

void check_inflate() {
  for (const auto& each : kDeflated) {
    Run packed, expected;
    for (const char* hex = each.hex; *hex; hex += 2)
      packed.push_back(static_cast<uint8_t>(std::stoi(std::string(hex, 2), nullptr, 16)));
    for (size_t i = 0; i < each.count; ++i)
      expected.push_back(static_cast<uint8_t>(i * i % 37 * (i % 3)));
    PALM_CHECK(inflates(packed, expected), "%zu bytes are not inflated", each.count);
    // Whatever is changed throws, or was of no account.
    for (size_t bit = 0; bit < 8 * packed.size(); ++bit) {
      Run changed = packed;
      changed[bit / 8] ^= static_cast<uint8_t>(1u << bit % 8);
      inflates(changed, expected);
    }
    for (size_t cut = 1; cut <= packed.size(); ++cut)
      PALM_CHECK(!inflates({packed.begin(), packed.end() - static_cast<ptrdiff_t>(cut)}, expected),
                 "%zu bytes less are inflated", cut);
    Run more = packed, fewer = expected;
    more.push_back(0), fewer.pop_back(), expected.push_back(0);
    PALM_CHECK(!inflates(packed, expected) && !inflates(packed, fewer), "another size");
    expected.pop_back();
    PALM_CHECK(!inflates(more, expected), "bytes behind");
  }
}

}  // namespace

int main() {
  Random random;
  for (const Coding coding : {Coding::kPlain, Coding::kHuffman, Coding::kRans, Coding::kPlanes})
    for (int kind = 0; kind < 5; ++kind)
      for (const size_t count :
           {0, 1, 2, 3, 5, 8, 31, 257, 1022, 1023, 1024, 1025, 1026, 1027, 5000})
        check(coding, count, kind, random);
  check_recipes(random, 20000);
  check_inflate();
}
