#include "base/threads.h"

#include <unistd.h>

#include <chrono>
#include <system_error>

#include "base/error.h"

namespace palm {
namespace {

constexpr int kMaxThreads = 256;
constexpr std::chrono::microseconds kSpin{50};
constexpr int kPausesBetweenLooks = 64, kLooksBeforeYield = 4000;

// In one word, so that a part is taken by one exchange: a worker that is late finds either parts of
// the loop that it looked at, or another word.
struct Ticket {
  explicit Ticket(uint64_t word)
      : loop(word >> 32), next(word >> 16 & 0xffff), parts(word & 0xffff) {}
  static uint64_t of(uint64_t loop, size_t parts) { return loop << 32 | parts; }
  static constexpr uint64_t kOnePart = 1 << 16;
  bool has_parts() const { return next < parts; }

  uint64_t loop;
  size_t next, parts;
};

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

Pool::Pool(int threads) : process_(getpid()) {
  if (threads < 1 || threads > kMaxThreads)
    fail(Fault::kBackend, "threads: expected 1 to %d, got %d", kMaxThreads, threads);
  workers_.reserve(static_cast<size_t>(threads) - 1);
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
    // After a fork there is nobody to join; a condition that was slept on then cannot be destroyed.
    for (std::thread& worker : workers_) worker.detach();
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

void Pool::run(Function function, void* data, size_t parts) {
  function_ = function;
  data_ = data;
  done_.store(0, std::memory_order_relaxed);
  ticket_.store(Ticket::of(Ticket(ticket_.load()).loop + 1, parts));
  if (sleepers_.load() > 0) {
    { std::lock_guard<std::mutex> lock(bed_->mutex); }
    bed_->wake.notify_all();
  }
  take_parts(0);
  for (int looks = 0; done_.load(std::memory_order_acquire) != parts; ++looks) {
    // A worker that lost its core within a part needs this one.
    if (looks > kLooksBeforeYield) std::this_thread::yield();
    else pause();
  }
}

void Pool::take_parts(int thread) {
  uint64_t word = ticket_.load(std::memory_order_acquire);
  for (;;) {
    const Ticket ticket(word);
    if (!ticket.has_parts()) return;
    if (!ticket_.compare_exchange_weak(word, word + Ticket::kOnePart, std::memory_order_acq_rel))
      continue;
    function_(data_, ticket.next, thread);
    done_.fetch_add(1, std::memory_order_release);
    word = ticket_.load(std::memory_order_acquire);
  }
}

void Pool::work(int thread) {
  using Clock = std::chrono::steady_clock;
  const auto idle = [&] { return !Ticket(ticket_.load()).has_parts() && !stop_.load(); };
  while (!stop_.load()) {
    const auto until = Clock::now() + kSpin;
    while (idle() && Clock::now() < until)
      for (int i = 0; i < kPausesBetweenLooks && idle(); ++i) pause();
    if (idle()) {
      std::unique_lock<std::mutex> lock(bed_->mutex);
      sleepers_.fetch_add(1);
      bed_->wake.wait(lock, [&] { return !idle(); });
      sleepers_.fetch_sub(1);
    }
    take_parts(thread);
  }
}

}  // namespace palm
