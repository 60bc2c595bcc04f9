#pragma once
// In place of base/threads.h where a library was asked to share loops among threads.
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/grain.h"

namespace palm {

// A caller and `threads - 1` workers. Each has the same part of every loop that is worth sharing.
// Workers spin a short while between loops, then sleep. One caller may use a pool at a time.
class Pool {
 public:
  explicit Pool(int threads);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  int threads() const { return threads_; }
  static void look() {}

  // Calls body(begin, end, thread) for parts of [0, count) that begin at multiples of grain.unit.
  template <class Body>
  void parallel(size_t count, Grain grain, Body body) {
    const size_t units = (count + grain.unit - 1) / grain.unit;
    const size_t sharers =
        std::min({static_cast<size_t>(threads_), units, count / std::max<size_t>(grain.least, 1)});
    if (sharers > 1) {
      run({count, grain.unit, units, sharers,
           [](void* data, size_t begin, size_t end, int thread) {
             (*static_cast<Body*>(data))(begin, end, thread);
           },
           &body});
    } else if (count) {
      body(size_t{0}, count, 0);
    }
  }

 private:
  struct Loop {
    size_t count, unit, units, sharers;
    void (*function)(void* data, size_t begin, size_t end, int thread);
    void* data;

    void share(size_t thread) const;
  };

  void run(const Loop& loop);
  void work(size_t thread);

  const int threads_;
  std::vector<std::thread> workers_;
  // Is written while none of its sharers is at work: they are told by `told_`.
  Loop loop_{};
  // How many loops there were, above kSharerBits, and how many threads share the last one.
  std::atomic<uint64_t> told_{0};
  std::atomic<size_t> at_work_{0};  // workers
  std::atomic<int> asleep_{0};
  std::mutex mutex_;
  std::condition_variable wake_;
};

}  // namespace palm
