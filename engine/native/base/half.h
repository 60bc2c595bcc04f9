#pragma once
#include <cstddef>
#include <cstdint>

namespace palm {

// The float16 numbers that lie at `halves`, at any address, as float32.
void widen_halves(const void* halves, size_t count, float* to);

// The numbers as float16; false if one of them is another then.
bool narrow_to_halves(const float* from, size_t count, uint16_t* halves);

}  // namespace palm
