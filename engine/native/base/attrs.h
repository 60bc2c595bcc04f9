#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace palm {

using Ints = std::vector<int64_t>;
using Floats = std::vector<double>;
using Attr = std::variant<int64_t, double, std::string, Ints, Floats>;

// A step's attributes. An accessor without a default throws Error where there is no such attribute.
class Attrs {
 public:
  // In place of another of the name.
  void set(std::string name, Attr value);

  int64_t integer(const char* name) const;
  int64_t integer(const char* name, int64_t missing) const;
  size_t size(const char* name, int64_t least = 0) const;  // an integer of at least that
  float number(const char* name) const;
  float number(const char* name, float missing) const;
  std::string text(const char* name) const;
  std::string text(const char* name, const char* missing) const;
  Ints integers(const char* name) const;  // one integer counts as a list of it
  bool has(const char* name) const { return place(name) != nullptr; }
  Ints integers(const char* name, Ints missing) const;  // as many as `missing` has
  Floats numbers(const char* name, Floats missing) const;

  // Throws Error naming an attribute that nobody asked for.
  void check_all_read() const;

 private:
  struct Entry {
    std::string name;
    Attr value;
    mutable bool is_read;
  };

  const Entry* place(std::string_view name) const;
  const Attr* find(const char* name) const;

  // A few: a list is searched, and made, in less time than a map.
  std::vector<Entry> entries_;
};

}  // namespace palm
