#pragma once
// How the constants of a model file are stored, decoded as the schema's Encoding says.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/arena.h"
#include "base/step.h"
#include "entropy/entropy.h"

namespace palm {

// What a recipe says, little-endian:
//
//   storage     uint8 kind, then for
//     0 raw, 1 half    run
//     2 quantized      uint64 elements that share a scale one after the other, uint32 scales,
//     storage
//                      of them, run of int8
//     3 sparse         uint8 kind of positions, uint64 values, run of positions, storage of values
//     4 codebook       uint8 bits, uint32 entries, run of entries, run of indices
//   run         uint64 offset in the data section, uint64 size, uint8 coding
class Stored {
 public:
  virtual ~Stored() = default;
  // All elements, to memory that is aligned to them. Throws Error where the bytes are damaged.
  virtual void decode(void* to) const = 0;
};

// Takes a recipe for `count` elements from the front of `recipe`; `data` must outlive the result.
// Throws Error if it is damaged.
std::unique_ptr<const Stored> read_stored(Bytes& recipe, Bytes data, DType dtype, size_t count);

// The float16 numbers that lie at `halves`, as float32.
std::unique_ptr<const Stored> half_at(const char* halves, size_t count);

// What constants that are decoded from a file may take together: hostile ones say anything.
constexpr size_t most_decoded(size_t file_bytes) {
  constexpr size_t kLeast = 16 << 20, kTimes = 1000;
  return file_bytes > SIZE_MAX / kTimes ? SIZE_MAX : std::max(kLeast, kTimes * file_bytes);
}

}  // namespace palm
