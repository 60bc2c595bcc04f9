#pragma once
#include <cstdint>
#include <vector>

namespace palm {

// Numbers as in palm.h.
enum class Priority : int32_t { kNormal = 0, kLow = 1, kHigh = 2 };

// Behind or before which others threads run, and on which cores.
struct Placement {
  Priority priority = Priority::kNormal;
  std::vector<int> cores;  // by the system's numbers; none: any

  bool is_default() const { return priority == Priority::kNormal && cores.empty(); }
  // Places the thread that calls. Throws Error if the system does not let it.
  void apply() const;
};

}  // namespace palm
