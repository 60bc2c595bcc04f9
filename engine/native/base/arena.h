#pragma once
#include <cstddef>
#include <cstdlib>
#include <memory>
#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "base/error.h"

namespace palm {

constexpr size_t kAlignment = 64, kHugePage = 2 << 20;

// `bytes` rounded up to whole cache lines.
inline size_t round_up(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// Uninitialised memory that begins on a cache line. The whole huge pages of what is large are asked
// to be such: weights that are read once a run are read up to twice as fast.
class Arena {
 public:
  Arena() = default;
  explicit Arena(size_t bytes)
      : data_(std::aligned_alloc(bytes < kHugePage ? kAlignment : kHugePage, round_up(bytes + 1))) {
    if (!data_) fail(Fault::kBackend, "out of memory: could not get %zu bytes", bytes);
#if defined(MADV_HUGEPAGE)
    if (bytes >= kHugePage) madvise(data_.get(), bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
#endif
  }
  char* data() const { return static_cast<char*>(data_.get()); }
  float* floats() const { return static_cast<float*>(data_.get()); }

 private:
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  std::unique_ptr<void, Free> data_;
};

}  // namespace palm
