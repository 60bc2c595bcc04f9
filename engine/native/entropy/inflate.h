#pragma once
#include <cstddef>
#include <memory>

#include "base/arena.h"

namespace palm {

// What zlib packed (RFC 1950, RFC 1951), which has to be all of `packed` and `size` bytes long.
// Throws Error where it is not; nothing in it is trusted.
std::unique_ptr<char[]> inflate(Bytes packed, size_t size);

}  // namespace palm
