#include "base/attrs.h"

#include "base/error.h"

namespace palm {

const AttrEntry* Attrs::find(std::string_view name) const {
  for (size_t i = 0; i < count_; ++i)
    if (name == values_.texts + entries_[i].name) return entries_ + i;
  return nullptr;
}

int64_t Attrs::integer(const char* name) const {
  const AttrEntry* const a = find(name);
  if (!a || a->kind != AttrEntry::kInteger) fail(name);
  return values_.integers[a->first];
}

float Attrs::number(const char* name) const {
  const AttrEntry* const a = find(name);
  if (a && a->kind == AttrEntry::kNumber)
    return static_cast<float>(values_.numbers[a->first]);
  return static_cast<float>(integer(name));
}

std::string Attrs::text(const char* name) const {
  const AttrEntry* const a = find(name);
  if (!a || a->kind != AttrEntry::kText) fail(name);
  return values_.texts + a->first;
}

Ints Attrs::integers(const char* name) const {
  const AttrEntry* const a = find(name);
  if (a && !a->count) return {};
  if (!a || (a->kind != AttrEntry::kIntegers && a->kind != AttrEntry::kInteger)) fail(name);
  const int64_t* const values = values_.integers + a->first;
  return Ints(values, values + a->count);
}

Floats Attrs::numbers(const char* name, Floats missing) const {
  const AttrEntry* const a = find(name);
  if (!a) return missing;
  if (a->kind == AttrEntry::kIntegers) {
    const Ints values = integers(name);
    return Floats(values.begin(), values.end());
  }
  const double* const values = values_.numbers + a->first;
  return Floats(values, values + a->count);
}

}  // namespace palm
