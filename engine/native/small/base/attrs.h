#pragma once
// In place of base/attrs.h: attributes lie in the library's constants.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace palm {

using Ints = std::vector<int64_t>;
using Floats = std::vector<double>;

struct AttrEntry {
  enum Kind : uint8_t { kInteger, kNumber, kText, kIntegers, kNumbers };
  uint16_t name;  // where it begins among the texts
  Kind kind;
  uint8_t count;
  uint16_t first;  // of its values, or where its text begins
};

// What entries index: addresses in them would have to be relocated.
struct AttrValues {
  const char* texts;  // each ends with a zero
  const int64_t* integers;
  const double* numbers;
};

class Attrs {
 public:
  Attrs(const AttrEntry* entries, size_t count, const AttrValues& values)
      : entries_(entries), count_(count), values_(values) {}

  int64_t integer(const char* name) const;
  int64_t integer(const char* name, int64_t missing) const;
  size_t size(const char* name, int64_t least = 0) const;
  float number(const char* name) const;
  float number(const char* name, float missing) const;
  std::string text(const char* name) const;
  std::string text(const char* name, const char* missing) const;
  Ints integers(const char* name) const;
  bool has(const char* name) const { return find(name) != nullptr; }
  Ints integers(const char* name, Ints missing) const;
  Floats numbers(const char* name, Floats missing) const;

 private:
  const AttrEntry* find(std::string_view name) const;

  const AttrEntry* entries_;
  size_t count_;
  const AttrValues& values_;
};

}  // namespace palm
