#include "base/threads.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace palm {
namespace {

constexpr size_t kMaxThreads = 256, kMaxUnits = 0xffff;
// A piece is worth this many times as much as it takes for a thread to share in a loop at all: who
// takes a small one from another's share costs that thread more, which finds it in the wrong cache
// in the loop after.
constexpr size_t kLeastPiece = 20;
// How long a worker waits for the next loop with a core of its own, and then with one that others
// may have, before it sleeps: the steps between two loops and what a caller does between two runs.
constexpr std::chrono::microseconds kSpin{50}, kYield{1000};
constexpr int kPausesBetweenLooks = 64, kLooksBeforeYield = 4000;
// A loop of more work than this is done in parts of no more, some 20 ms of multiply-adds: a caller
// who gives up need not wait for its end. Of slices, a part is a fraction.
constexpr size_t kLong = size_t{1} << 30;
constexpr std::chrono::milliseconds kTimeOfLong{20};
constexpr size_t kPartsOfSlice = 4;
constexpr uint32_t kLoopsBetweenLooks = 16;

// Units [begin, end) of a loop. In one word, so that units are taken by one exchange: who is late
// finds either units of the loop that it looked at, or another word.
struct Range {
  explicit Range(uint64_t word) : loop(word >> 32), begin(word >> 16 & 0xffff), end(word & 0xffff) {}
  Range(uint64_t of_loop, size_t from, size_t to) : loop(of_loop), begin(from), end(to) {}
  uint64_t word() const { return loop << 32 | begin << 16 | end; }
  size_t size() const { return end - begin; }

  uint64_t loop;
  size_t begin, end;
};

// Units to take at once where `left` are left: half of them, so that the first piece is large and
// the last ones are small, but none is smaller than `piece`, nor larger than `most`, unless that is
// 0.
size_t part_of(size_t left, size_t piece, size_t most) {
  const size_t half = std::max((left + 1) / 2, piece);
  const size_t part = half + piece > left ? left : half;
  return most && part > most ? most : part;
}

bool is_more(size_t count, size_t work, size_t most) {
  size_t all;
  return __builtin_mul_overflow(count, work, &all) || all > most;
}

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

#if defined(__wasm__)
using wasm::Patience;
#else
// A system's threads end with their process alone.
struct Patience {
  void look() {}
};
#endif

}  // namespace

void Watch::begin(Ask ask, void* data, Clock::duration slice) {
  ask_ = ask;
  data_ = data;
  caller_ = std::this_thread::get_id();
  next_ = Clock::now() + kBetweenAsking;
  slice_ = slice;
  ended_ = false;
}

void Watch::ask() {
  if (!ask_ || Clock::now() < next_) return;
  if (!ask_(data_)) ended_ = true;
  next_ = Clock::now() + kBetweenAsking;
}

void Watch::end_slice() const {
  static thread_local Clock::time_point end;
  if (Clock::now() < end) return;
  std::this_thread::yield();
  end = Clock::now() + slice_;
}

void Watch::look() {
  if (slice_ > Clock::duration::zero()) end_slice();
  if (ask_ && std::this_thread::get_id() == caller_) ask();
  if (ended_.load(std::memory_order_relaxed)) fail(Fault::kBackend, "the run was interrupted");
}

Pool::Pool(int threads, bool eager, Watch* watch, const Placement* placement)
    : threads_(static_cast<size_t>(threads)),
      eager_(eager),
      watch_(watch),
      placement_(placement),
      process_(getpid()) {
  if (threads < 1 || static_cast<size_t>(threads) > kMaxThreads)
    fail(Fault::kBackend, "threads: expected 1 to %zu, got %d", kMaxThreads, threads);
  shares_ = std::make_unique<Share[]>(threads_);
  workers_.reserve(threads_ - 1);
  try {
    for (int t = 1; t < threads; ++t) workers_.emplace_back(&Pool::work, this, t);
  } catch (const std::system_error& error) {
    const size_t started = workers_.size() + 1;
    stop();
    fail(Fault::kBackend, "threads: started %zu of %d: %s", started, threads, error.what());
  }
}

Pool::~Pool() {
  if (process_ == getpid()) {
    stop();
  } else {
    // After a fork there is nobody to join, and what was a thread's descriptor may be that of a new
    // one by now: neither join nor detach. A condition that was slept on cannot be destroyed.
    static_cast<void>(new std::vector<std::thread>(std::move(workers_)));
    static_cast<void>(bed_.release());
  }
}

void Pool::stop() {
  {
    std::lock_guard<std::mutex> lock(bed_->mutex);
    stop_ = true;
  }
  bed_->wake.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void Pool::check_process() const {
  if (!workers_.empty() && process_ != getpid())
    fail(Fault::kBackend, "a session of %d threads does not survive a fork", threads());
}

// Here and in run, divisions take some 20 ns each: a small network has a loop every microsecond.
size_t Pool::count_sharers(size_t count, Grain grain) {
  if (++loops_ >= kLoopsBetweenLooks || is_sliced()) loops_ = 0, look();
  if (!workers_.empty() && (eager_ || count / 2 >= grain.least)) {
    const size_t units = (count + grain.unit - 1) / grain.unit;
    const size_t sharers = std::min({threads_, units, eager_ ? units : count / grain.least});
    if (sharers > 1) return sharers;
  }
  return count > grain.unit && is_more(count, grain.work, most_work()) ? 1 : 0;
}

size_t Pool::most_work() const {
  if (!is_sliced()) return kLong;
  const double slices = std::chrono::duration<double>(watch_->slice()) / kTimeOfLong / kPartsOfSlice;
  return std::max<size_t>(1, slices < 1 ? static_cast<size_t>(slices * kLong) : kLong);
}

void Pool::wake() {
  { std::lock_guard<std::mutex> lock(bed_->mutex); }
  bed_->wake.notify_all();
}

void Pool::run(size_t count, Grain grain, size_t sharers, Function function, void* data) {
  size_t unit = grain.unit, units = (count + unit - 1) / unit;
  if (units > kMaxUnits) {
    unit *= (units + kMaxUnits - 1) / kMaxUnits;
    units = (count + unit - 1) / unit;
  }
  const size_t piece = eager_ ? 1 : std::max<size_t>(1, grain.least / unit * kLeastPiece);
  const size_t most_at_once = most_work();
  const size_t most = is_more(count, grain.work, most_at_once)
                          ? std::max<size_t>(1, most_at_once / grain.work / unit)
                          : 0;
  const Loop loop{count, unit, most, function, data};
  ++loop_;
  size_t own = units;  // of the thread, at last the caller
  for (size_t t = sharers, end = units; t-- > 0;) {
    Share& share = shares_[t];
    const size_t begin = t ? units * t / sharers : 0;
    Range range(loop_, begin, end);
    own = end - begin;
    end = begin;
    share.loop = loop;
    share.piece.store(piece, std::memory_order_relaxed);
    share.most.store(most, std::memory_order_relaxed);
    // The caller has its first piece already.
    if (t == 0) range.begin = part_of(range.size(), piece, most);
    share.range.store(range.word(), std::memory_order_release);
  }
  // A worker that falls asleep just now is not missed: its share is taken by others.
  if (sleepers_.load(std::memory_order_relaxed) > 0) wake();
  size_t mine = part_of(own, piece, most);
  call(loop, 0, mine, 0);
  mine += take(shares_[0], true, 0);
  mine += take_others(0);
  expected_ += units - mine;
  Patience patience;
  for (int looks = 0; done_.load(std::memory_order_acquire) != expected_; ++looks) {
    // A worker that lost its core within a piece needs this one.
    if (looks <= kLooksBeforeYield) {
      pause();
      continue;
    }
    std::this_thread::yield();
    patience.look();
  }
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

// Units [begin, end) of a loop. What is thrown waits for the end of the loop: others work on the
// caller's stack.
void Pool::call(const Loop& loop, size_t begin, size_t end, int thread) {
  begin *= loop.unit;
  try {
    if (loop.most) look();
    loop.function(loop.data, begin, std::min(end * loop.unit, loop.count), thread);
  } catch (...) {
    const std::lock_guard<std::mutex> lock(failing_);
    if (!failure_ || begin < failed_at_) failure_ = std::current_exception(), failed_at_ = begin;
  }
}

// Units of a share until there are no more: from the front if it is the thread's own. Returns how
// many.
size_t Pool::take(Share& share, bool own, int thread) {
  size_t taken = 0;
  uint64_t word = share.range.load(std::memory_order_acquire);
  for (;;) {
    const Range range(word);
    if (range.size() == 0) return taken;
    const size_t part = part_of(range.size(), share.piece.load(std::memory_order_relaxed),
                                share.most.load(std::memory_order_relaxed));
    Range rest = range;
    if (own) rest.begin += part;
    else rest.end -= part;
    if (!share.range.compare_exchange_weak(word, rest.word(), std::memory_order_acq_rel,
                                           std::memory_order_acquire))
      continue;
    const size_t begin = own ? range.begin : rest.end;
    call(share.loop, begin, begin + part, thread);
    taken += part;
    word = share.range.load(std::memory_order_acquire);
  }
}

size_t Pool::take_others(int thread) {
  size_t taken = 0;
  for (size_t i = 1; i < threads_; ++i)
    taken += take(shares_[(static_cast<size_t>(thread) + i) % threads_], false, thread);
  return taken;
}

void Pool::work(int thread) {
  using Clock = std::chrono::steady_clock;
  try {
    if (placement_) placement_->apply();
  } catch (const Error&) {
    // The caller could be: what changed since keeps nobody from working.
  }
  Share& share = shares_[static_cast<size_t>(thread)];
  const auto idle = [&] {
    return Range(share.range.load(std::memory_order_acquire)).size() == 0 &&
           !stop_.load(std::memory_order_relaxed);
  };
  while (!stop_.load()) {
    const auto start = Clock::now();
    while (idle() && Clock::now() < start + kSpin)
      for (int i = 0; i < kPausesBetweenLooks && idle(); ++i) pause();
    while (idle() && Clock::now() < start + kYield) std::this_thread::yield();
    if (idle()) {
      std::unique_lock<std::mutex> lock(bed_->mutex);
      sleepers_.fetch_add(1);
      bed_->wake.wait(lock, [&] { return !idle(); });
      sleepers_.fetch_sub(1);
    }
    // Told at once, in case the caller waits for nothing else.
    if (const size_t taken = take(share, true, thread)) done_.fetch_add(taken);
    if (const size_t taken = take_others(thread)) done_.fetch_add(taken);
  }
}

}  // namespace palm
