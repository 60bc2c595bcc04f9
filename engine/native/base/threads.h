#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/grain.h"
#include "base/placement.h"

namespace palm {

// Ends runs that their caller no longer wants, and has long ones let others run in between.
class Watch {
 public:
  using Ask = bool (*)(void* data);  // whether the run is to go on
  using Clock = std::chrono::steady_clock;
  // How often a caller is asked. Python's has to wait for its lock.
  static constexpr std::chrono::milliseconds kBetweenAsking{500};

  // A run begins for this thread, where it is asked now and then if it takes long. slice: how long
  // each thread works before others get its core; 0: as long as the system lets it.
  void begin(Ask ask, void* data, Clock::duration slice = Clock::duration::zero());
  // In the thread that began: asks, if it is time to.
  void ask();
  // Asks, ends a slice, and throws Error once the run is to end; in other threads, after the one
  // that asks has done so.
  void look();
  // How long a slice takes; 0: there are none.
  Clock::duration slice() const { return slice_; }

 private:
  void end_slice() const;

  Ask ask_ = nullptr;
  void* data_ = nullptr;
  std::thread::id caller_;
  Clock::time_point next_;
  Clock::duration slice_{};
  std::atomic<bool> ended_{false};
};

// A caller and `threads - 1` workers that share out loops. Each has its own share, the same part of
// every loop, so that it finds in its cache what it wrote in the loop before; who is done takes
// from the others' shares. So the caller never waits for a worker that has not begun. Workers spin
// a short while between loops, then sleep. One caller may use a pool at a time.
class Pool {
 public:
  // eager: shares out whatever can be split, worth it or not, in parts as small as can be.
  // watch: it is looked at between loops and between the parts of long ones. placement: of the
  // workers, one that the caller could have; it must outlive the pool.
  explicit Pool(int threads, bool eager = false, Watch* watch = nullptr,
                const Placement* placement = nullptr);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  int threads() const { return static_cast<int>(threads_); }

  // Throws Error if the workers stayed behind in a parent process.
  void check_process() const;

  // Calls body(begin, end, thread) for parts of [0, count) that begin at multiples of grain.unit.
  // If it throws, the other parts are done all the same; then what the first of the parts that
  // failed threw is thrown here.
  template <class Body>
  void parallel(size_t count, Grain grain, Body body) {
    const size_t sharers = count_sharers(count, grain);
    if (!sharers) {
      if (count) body(size_t{0}, count, 0);
      return;
    }
    run(count, grain, sharers,
        [](void* data, size_t begin, size_t end, int thread) {
          (*static_cast<Body*>(data))(begin, end, thread);
        },
        &body);
  }

  // For long loops within a part; parallel() looks by itself.
  void look() const {
    if (watch_) watch_->look();
  }
  // Whether runs are cut into slices: then it is looked at more often.
  bool is_sliced() const { return watch_ && watch_->slice() > Watch::Clock::duration::zero(); }

 private:
  using Function = void (*)(void* data, size_t begin, size_t end, int thread);

  // A loop, in units of as many items.
  struct Loop {
    size_t count, unit;
    size_t most;  // units in one part, 0: any
    Function function;
    void* data;
  };
  // The units of a thread's share that nobody has taken yet: see Range. The loop is written before
  // `range` says that there are units, and not again before all are done.
  struct alignas(128) Share {
    std::atomic<uint64_t> range{0};
    std::atomic<size_t> piece{1};  // units that are worth taking
    std::atomic<size_t> most{0};
    Loop loop{};
  };

  // The threads that share in a loop; 0 of one that is done at once.
  size_t count_sharers(size_t count, Grain grain);
  // The most work, in Grain's units, that a thread does without a look.
  size_t most_work() const;
  void run(size_t count, Grain grain, size_t sharers, Function function, void* data);
  void call(const Loop& loop, size_t begin, size_t end, int thread);
  size_t take(Share& share, bool own, int thread);
  size_t take_others(int thread);
  void work(int thread);
  void wake();
  void stop();

  const size_t threads_;  // workers look at it while others are being started
  std::vector<std::thread> workers_;
  std::unique_ptr<Share[]> shares_;
  const bool eager_;
  Watch* const watch_;
  const Placement* const placement_;
  int process_ = 0;
  uint32_t loop_ = 0;
  uint32_t loops_ = 0;     // split or not, since the watch was looked at
  uint64_t expected_ = 0;  // of done_, when the workers are done
  struct Bed {
    std::mutex mutex;
    std::condition_variable wake;
  };
  std::unique_ptr<Bed> bed_ = std::make_unique<Bed>();
  alignas(128) std::atomic<uint64_t> done_{0};  // units, by workers, ever
  alignas(128) std::atomic<int> sleepers_{0};
  std::atomic<bool> stop_{false};
  std::mutex failing_;  // for the two below
  std::exception_ptr failure_;
  size_t failed_at_ = 0;
};

}  // namespace palm
