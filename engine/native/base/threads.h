#pragma once
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace palm {

// How many items make a part that is worth sharing, at `work` an item: multiply-adds, or
// kWorkOfTouching for each float that is only moved. A multiple of `unit`.
constexpr size_t kWorkOfTouching = 8;
inline size_t grain_of(size_t work, size_t unit = 1) {
  constexpr size_t kPart = 256 << 10;
  const size_t items = kPart / (work ? work : 1) + 1;
  return (items + unit - 1) / unit * unit;
}

// A caller and `threads - 1` workers that share out loops. The caller never waits for a worker that
// has not begun a part: it does that part itself. Workers spin a short while between loops, then
// sleep. One caller may use a pool at a time.
class Pool {
 public:
  explicit Pool(int threads);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Throws Error if the workers stayed behind in a parent process.
  void check_process() const;

  // Calls body(begin, end, thread) for parts of [0, count) that begin at multiples of `grain`.
  // The body must not throw if there is more than one thread.
  template <class Body>
  void parallel(size_t count, size_t grain, Body body) {
    const size_t units = (count + grain - 1) / grain;
    const size_t most = static_cast<size_t>(threads()) * kPartsPerThread;
    const size_t parts = units < most ? units : most;
    if (parts <= 1 || workers_.empty()) {
      if (count) body(size_t{0}, count, 0);
      return;
    }
    struct Job {
      size_t count, grain, units, parts;
      Body* body;
    } job{count, grain, units, parts, &body};
    run(
        [](void* data, size_t part, int thread) {
          const Job& j = *static_cast<Job*>(data);
          const size_t begin = j.units * part / j.parts * j.grain;
          const size_t end = j.units * (part + 1) / j.parts * j.grain;
          (*j.body)(begin, end < j.count ? end : j.count, thread);
        },
        &job, parts);
  }

 private:
  using Function = void (*)(void* data, size_t part, int thread);

  static constexpr size_t kPartsPerThread = 4;

  void run(Function function, void* data, size_t parts);
  void take_parts(int thread);
  void work(int thread);
  void stop();

  std::vector<std::thread> workers_;
  int process_ = 0;
  struct Bed {
    std::mutex mutex;
    std::condition_variable wake;
  };
  std::unique_ptr<Bed> bed_ = std::make_unique<Bed>();
  // Written before `ticket_` says that there are parts, and not again before all of them are done.
  Function function_ = nullptr;
  void* data_ = nullptr;
  // The loop's number, the next part and the number of parts: see Ticket.
  alignas(64) std::atomic<uint64_t> ticket_{0};
  alignas(64) std::atomic<size_t> done_{0};
  alignas(64) std::atomic<int> sleepers_{0};
  std::atomic<bool> stop_{false};
};

}  // namespace palm
