#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "base/bytes.h"

namespace palm {

class Region;

// Uninitialised memory that begins on a cache line; throws Error if there is none. What is
// large lies in huge pages where the system has them: weights that are read once a run are read up
// to twice as fast, and the first touch of a small page costs more than computing with it.
class Arena {
 public:
  Arena();
  explicit Arena(size_t bytes);
  Arena(Region& region, size_t bytes);  // as Region::lend
  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&& other) noexcept;
  ~Arena();
  char* data() const { return data_.get(); }
  Bytes bytes() const { return {data_.get(), size_}; }
  float* floats() const { return reinterpret_cast<float*>(data_.get()); }

 private:
  std::shared_ptr<char> data_;
  size_t size_ = 0;
};

// Memory that fills up from its beginning, so that a program takes few huge pages and fills them.
// It takes addresses for more than it may need: memory comes when it is touched.
class Region {
 public:
  // most_bytes: what it holds at most; beyond that Arenas lie elsewhere. least_bytes: what it
  // holds surely; with little it is not worth a page of its own, and holds nothing.
  Region(size_t least_bytes, size_t most_bytes);
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  // While it lives, the Arenas that its thread makes lie in the region, one behind the other; the
  // memory of one that is gone stays taken.
  class Use {
   public:
    explicit Use(Region& region);
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    Region* const before_;
  };

 private:
  friend class Arena;

  std::shared_ptr<char> take(size_t bytes);
  // To one at a time, and again when that is given back; to others elsewhere. When all others are
  // made; the region must outlive it.
  std::shared_ptr<char> lend(size_t bytes);
  std::shared_ptr<char> end(size_t bytes);

  std::mutex mutex_;
  std::shared_ptr<char> memory_, loan_;
  size_t bytes_ = 0, used_ = 0, loan_bytes_ = 0;
  std::atomic<bool> is_lent_{false};
};

}  // namespace palm
