#pragma once
#include <cstddef>
#include <cstdlib>
#include <memory>

#include "base/error.h"

namespace palm {

constexpr size_t kAlignment = 64;

// `bytes` rounded up to whole cache lines.
inline size_t round_up(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// Uninitialised memory that begins on a cache line.
class Arena {
 public:
  Arena() = default;
  explicit Arena(size_t bytes) : data_(std::aligned_alloc(kAlignment, round_up(bytes + 1))) {
    if (!data_) fail(Fault::kBackend, "out of memory: could not get %zu bytes", bytes);
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
