#pragma once
#include <cstddef>

namespace palm {

// How a loop may be split: into parts that begin at multiples of `unit` items, `least` items being
// worth a thread's while. work: of one item, see grain_of.
struct Grain {
  size_t unit, least, work = 1;
};

// The grain of items of `work` each: multiply-adds, or kWorkOfTouching for each float that is only
// moved.
constexpr size_t kWorkOfTouching = 8;
inline Grain grain_of(size_t work, size_t unit = 1) {
  constexpr size_t kWorthAThread = 32 << 10;  // some half a microsecond
  return {unit, kWorthAThread / (work ? work : 1) + 1, work};
}

}  // namespace palm
