#include "base/attrs.h"

#include <utility>

#include "base/error.h"

namespace palm {

const Attrs::Entry* Attrs::place(std::string_view name) const {
  for (const Entry& entry : entries_)
    if (entry.name == name) return &entry;
  return nullptr;
}

void Attrs::set(std::string name, Attr value) {
  for (Entry& entry : entries_)
    if (entry.name == name) return void(entry.value = std::move(value));
  entries_.push_back({std::move(name), std::move(value), false});
}

const Attr* Attrs::find(const char* name) const {
  const Entry* const entry = place(name);
  if (!entry) return nullptr;
  entry->is_read = true;
  return &entry->value;
}

int64_t Attrs::integer(const char* name) const {
  if (const Attr* a = find(name))
    if (const int64_t* v = std::get_if<int64_t>(a)) return *v;
  fail(Fault::kModel, "attribute %s: expected an integer", name);
}

float Attrs::number(const char* name) const {
  if (const Attr* a = find(name)) {
    if (const double* v = std::get_if<double>(a)) return static_cast<float>(*v);
    if (const int64_t* v = std::get_if<int64_t>(a)) return static_cast<float>(*v);
  }
  fail(Fault::kModel, "attribute %s: expected a number", name);
}

std::string Attrs::text(const char* name) const {
  if (const Attr* a = find(name))
    if (const std::string* v = std::get_if<std::string>(a)) return *v;
  fail(Fault::kModel, "attribute %s: expected a string", name);
}

Ints Attrs::integers(const char* name) const {
  if (const Attr* a = find(name)) {
    if (const Ints* v = std::get_if<Ints>(a)) return *v;
    if (const int64_t* v = std::get_if<int64_t>(a)) return {*v};
    if (const Floats* v = std::get_if<Floats>(a); v && v->empty()) return {};
  }
  fail(Fault::kModel, "attribute %s: expected a list of integers", name);
}

Floats Attrs::numbers(const char* name, Floats missing) const {
  const Attr* a = find(name);
  if (!a) return missing;
  if (const Floats* v = std::get_if<Floats>(a)) return *v;
  if (const Ints* v = std::get_if<Ints>(a)) return Floats(v->begin(), v->end());
  fail(Fault::kModel, "attribute %s: expected a list of numbers", name);
}

void Attrs::check_all_read() const {
  for (const Entry& entry : entries_)
    if (!entry.is_read) fail(Fault::kModel, "no such attribute: %.40s", entry.name.c_str());
}

}  // namespace palm
