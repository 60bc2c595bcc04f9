#pragma once
// In place of base/threads.h where one thread does it all.
#include <cstddef>

#include "base/grain.h"

namespace palm {

class Pool {
 public:
  explicit Pool(int /*threads*/) {}

  static int threads() { return 1; }
  static void look() {}

  template <class Body>
  void parallel(size_t count, Grain, Body body) const {
    if (count) body(size_t{0}, count, 0);
  }
};

}  // namespace palm
