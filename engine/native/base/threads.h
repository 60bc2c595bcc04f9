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

// How a loop may be split: into parts that begin at multiples of `unit` items, `least` items being
// worth a thread's while.
struct Grain {
  size_t unit, least;
};

// The grain of items of `work` each: multiply-adds, or kWorkOfTouching for each float that is only
// moved.
constexpr size_t kWorkOfTouching = 8;
inline Grain grain_of(size_t work, size_t unit = 1) {
  constexpr size_t kWorthAThread = 32 << 10;  // some half a microsecond
  return {unit, kWorthAThread / (work ? work : 1) + 1};
}

// A caller and `threads - 1` workers that share out loops. Each has its own share, the same part of
// every loop, so that it finds in its cache what it wrote in the loop before; who is done takes
// from the others' shares. So the caller never waits for a worker that has not begun. Workers spin
// a short while between loops, then sleep. One caller may use a pool at a time.
class Pool {
 public:
  // eager: shares out whatever can be split, worth it or not, in parts as small as can be.
  explicit Pool(int threads, bool eager = false);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Throws Error if the workers stayed behind in a parent process.
  void check_process() const;

  // Calls body(begin, end, thread) for parts of [0, count) that begin at multiples of grain.unit.
  // The body must not throw if there is more than one thread.
  template <class Body>
  void parallel(size_t count, Grain grain, Body body) {
    const size_t sharers = workers_.empty() ? 1 : count_sharers(count, grain);
    if (sharers <= 1) {
      if (count) body(size_t{0}, count, 0);
      return;
    }
    struct Loop {
      size_t count, unit;
      Body* body;
    } loop{count, unit_of(count, grain), &body};
    run(
        [](void* data, size_t begin, size_t end, int thread) {
          const Loop& l = *static_cast<Loop*>(data);
          end *= l.unit;
          (*l.body)(begin * l.unit, end < l.count ? end : l.count, thread);
        },
        &loop, (count + loop.unit - 1) / loop.unit, eager_ ? 0 : grain.least / loop.unit, sharers);
  }

 private:
  using Function = void (*)(void* data, size_t begin, size_t end, int thread);

  // The units of a thread's share that nobody has taken yet: see Range. The function and its data
  // are written before `range` says that there are units, and not again before all are done.
  struct alignas(128) Share {
    std::atomic<uint64_t> range{0};
    std::atomic<size_t> piece{1};  // units that are worth taking
    Function function = nullptr;
    void* data = nullptr;
  };

  size_t count_sharers(size_t count, Grain grain) const;
  static size_t unit_of(size_t count, Grain grain);
  void run(Function function, void* data, size_t units, size_t least, size_t sharers);
  size_t take(Share& share, bool own, int thread);
  size_t take_others(int thread);
  void work(int thread);
  void wake();
  void stop();

  std::vector<std::thread> workers_;
  std::unique_ptr<Share[]> shares_;
  const bool eager_;
  int process_ = 0;
  uint32_t loop_ = 0;
  uint64_t expected_ = 0;  // of done_, when the workers are done
  struct Bed {
    std::mutex mutex;
    std::condition_variable wake;
  };
  std::unique_ptr<Bed> bed_ = std::make_unique<Bed>();
  alignas(128) std::atomic<uint64_t> done_{0};  // units, by workers, ever
  alignas(128) std::atomic<int> sleepers_{0};
  std::atomic<bool> stop_{false};
};

}  // namespace palm
