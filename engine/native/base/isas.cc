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
#define PALM_ISA(set, need) add(need, #set);
#define PALM_BF16_ISA(set, need) PALM_ISA(set, need)
#define PALM_INT8_ISA(set, need) PALM_ISA(set, need)
#define PALM_FILE_ISA(set, need) PALM_ISA(set, need)
#include "base/file_isas.inc"
#include "base/bf16_isas.inc"
#include "base/int8_isas.inc"
#include "base/isas.inc"
#undef PALM_FILE_ISA
#undef PALM_INT8_ISA
#undef PALM_BF16_ISA
#undef PALM_ISA
  return names;
}

}  // namespace

uint32_t isa_called(const std::string& name) {
  uint32_t isa = host_isa();
  if (name.empty()) return isa;
  if (!isa_by_name(name.c_str(), &isa) || (host_isa() & isa) != isa)
    fail(Fault::kBackend, "this host has no instruction set %.40s", name.c_str());
  return isa;
}

const std::vector<std::string>& host_isas() {
  static const std::vector<std::string> isas = find_isas();
  return isas;
}

}  // namespace palm
