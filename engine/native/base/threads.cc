#include "base/threads.h"

#include <unistd.h>

#include <chrono>
#include <system_error>

#include "base/error.h"

namespace palm {
namespace {

constexpr int kMaxThreads = 256;
constexpr std::chrono::microseconds kSpin{50};
constexpr int kPausesBetweenLooks = 64;

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
    // After a fork there is nobody to join.
    for (std::thread& worker : workers_) worker.detach();
  }
}

void Pool::stop() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
    epoch_.fetch_add(1);
  }
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void Pool::check_process() const {
  if (!workers_.empty() && process_ != getpid())
    fail(Fault::kBackend, "a session of %d threads does not survive a fork", threads());
}

void Pool::run(Function function, void* data) {
  function_ = function;
  data_ = data;
  busy_.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);
  epoch_.fetch_add(1);
  if (sleepers_.load() > 0) {
    { std::lock_guard<std::mutex> lock(mutex_); }
    wake_.notify_all();
  }
  function(data, 0);
  for (int looks = 0; busy_.load(std::memory_order_acquire) != 0; ++looks) {
    // A worker that lost its core needs this one.
    if (looks > 10000) std::this_thread::yield();
    else pause();
  }
}

void Pool::work(int thread) {
  using Clock = std::chrono::steady_clock;
  for (uint64_t seen = 0;;) {
    const auto until = Clock::now() + kSpin;
    while (epoch_.load(std::memory_order_acquire) == seen && Clock::now() < until) {
      for (int i = 0; i < kPausesBetweenLooks && epoch_.load(std::memory_order_relaxed) == seen; ++i)
        pause();
    }
    if (epoch_.load() == seen) {
      std::unique_lock<std::mutex> lock(mutex_);
      sleepers_.fetch_add(1);
      wake_.wait(lock, [&] { return epoch_.load() != seen; });
      sleepers_.fetch_sub(1);
    }
    ++seen;
    if (stop_) return;
    function_(data_, thread);
    busy_.fetch_sub(1, std::memory_order_release);
  }
}

}  // namespace palm
