#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/cpu.h"

namespace palm {

// The bits of all sets that the library has kernels for; what asks for others is left out of it.
constexpr uint32_t kBuiltIsas = kScalar
#define PALM_SET(set, need) | (need)
#include "base/every_set.inc"
#undef PALM_SET
    ;

// The bits of the set called `name`, or of the host where that is empty. Throws Error where the host
// does not have it.
uint32_t isa_called(const std::string& name);

// The names of the host's sets, best first; a set with files of several kinds comes where its last
// kind does.
const std::vector<std::string>& host_isas();

}  // namespace palm
