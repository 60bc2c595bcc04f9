#pragma once
// In place of base/threads.h where one thread does it all.
#include <cstddef>

namespace palm {

struct Grain {
  size_t unit, least, work = 1;
};

constexpr size_t kWorkOfTouching = 8;
inline Grain grain_of(size_t, size_t unit = 1) { return {unit, 1}; }

class Pool {
 public:
  static int threads() { return 1; }
  static void look() {}

  template <class Body>
  void parallel(size_t count, Grain, Body body) const {
    if (count) body(size_t{0}, count, 0);
  }
};

}  // namespace palm
