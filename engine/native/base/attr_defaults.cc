// What follows from the other accessors, of whichever Attrs there is.
#include "base/attrs.h"
#include "base/error.h"

namespace palm {

int64_t Attrs::integer(const char* name, int64_t missing) const {
  return has(name) ? integer(name) : missing;
}

size_t Attrs::size(const char* name, int64_t least) const {
  const int64_t value = integer(name);
  if (value < least) {
    fail(Fault::kModel, "attribute %s: expected %lld or more, got %lld", name,
         static_cast<long long>(least), static_cast<long long>(value));
  }
  return static_cast<size_t>(value);
}

float Attrs::number(const char* name, float missing) const {
  return has(name) ? number(name) : missing;
}

std::string Attrs::text(const char* name, const char* missing) const {
  return has(name) ? text(name) : missing;
}

Ints Attrs::integers(const char* name, Ints missing) const {
  if (!has(name)) return missing;
  Ints v = integers(name);
  if (v.size() != missing.size()) {
    fail(Fault::kModel, "attribute %s: expected %zu integers, got %zu", name, missing.size(),
         v.size());
  }
  return v;
}

}  // namespace palm
