#pragma once
#include <cstddef>

namespace palm {

// The float16 numbers that lie at `halves`, at any address, as float32.
void widen_halves(const void* halves, size_t count, float* to);

}  // namespace palm
