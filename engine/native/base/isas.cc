#include "base/isas.h"

#include <algorithm>

#include "base/cpu.h"
#include "base/error.h"

namespace palm {
namespace {

std::vector<std::string> find_isas() {
  std::vector<std::string> names;
  const auto add = [&](uint32_t need, const char* name) {
    if ((host_isa() & need) != need) return;
    names.erase(std::remove(names.begin(), names.end(), name), names.end());
    names.push_back(name);
  };
#define PALM_SET(set, need) add(need, #set);
#include "base/every_set.inc"
#undef PALM_SET
  return names;
}

// Whether there is a kernel of each kind for a machine with these. A library of all sets has one for
// every machine, one of some sets has not.
bool is_served(uint32_t isa) {
  bool has_floats = false, has_bytes = false;
#define PALM_ISA(set, need) has_floats |= (isa & (need)) == (need);
#define PALM_INT8_ISA(set, need) has_bytes |= (isa & (need)) == (need);
#include "base/int8_isas.inc"
#include "base/isas.inc"
#undef PALM_INT8_ISA
#undef PALM_ISA
  return has_floats && has_bytes;
}

constexpr char kBuiltFor[] = ""
#define PALM_SET(set, need) " " #set
#include "base/every_set.inc"
#undef PALM_SET
    ;

}  // namespace

uint32_t isa_called(const std::string& name) {
  uint32_t isa = host_isa();
  if (!name.empty() && (!isa_by_name(name.c_str(), &isa) || (host_isa() & isa) != isa))
    fail(Fault::kBackend, "this host has no instruction set %.40s", name.c_str());
  if (!is_served(isa)) {
    fail(Fault::kBackend, "this library is for%s: %.40s is not enough for it", kBuiltFor,
         name.empty() ? "this machine" : name.c_str());
  }
  return isa;
}

const std::vector<std::string>& host_isas() {
  static const std::vector<std::string> isas = find_isas();
  return isas;
}

}  // namespace palm
