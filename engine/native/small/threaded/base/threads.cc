#include "base/threads.h"

namespace palm {
namespace {

constexpr int kSharerBits = 16;
constexpr uint64_t kSharers = (uint64_t{1} << kSharerBits) - 1;
// Of sharers, what tells workers to end.
constexpr uint64_t kEnd = kSharers;
// Looks at what is told, before a worker sleeps and before the caller lets others run.
constexpr int kLooksOfWorker = 4000, kLooksOfCaller = 1000;

}  // namespace

void Pool::Loop::share(size_t thread) const {
  const size_t begin = units * thread / sharers * unit;
  const size_t end = std::min(units * (thread + 1) / sharers * unit, count);
  function(data, begin, end, static_cast<int>(thread));
}

Pool::Pool(int threads) : threads_(threads) {
  for (int t = 1; t < threads; ++t) workers_.emplace_back(&Pool::work, this, static_cast<size_t>(t));
}

Pool::~Pool() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    told_.store(kEnd);
  }
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void Pool::run(const Loop& loop) {
  loop_ = loop;
  at_work_.store(loop.sharers - 1, std::memory_order_relaxed);
  const uint64_t loops = told_.load(std::memory_order_relaxed) >> kSharerBits;
  told_.store((loops + 1) << kSharerBits | loop.sharers);
  if (asleep_.load()) {
    { const std::lock_guard<std::mutex> lock(mutex_); }
    wake_.notify_all();
  }
  loop.share(0);
  for (int looks = 0; at_work_.load(std::memory_order_acquire); ++looks)
    if (looks > kLooksOfCaller) std::this_thread::yield();
}

void Pool::work(size_t thread) {
  for (uint64_t known = 0, told;; known = told) {
    for (int looks = 0; (told = told_.load()) == known; ++looks) {
      if (looks < kLooksOfWorker) continue;
      std::unique_lock<std::mutex> lock(mutex_);
      asleep_.fetch_add(1);
      wake_.wait(lock, [&] { return told_.load() != known; });
      asleep_.fetch_sub(1);
    }
    const uint64_t sharers = told & kSharers;
    if (sharers == kEnd) return;
    if (thread >= sharers) continue;
    loop_.share(thread);
    at_work_.fetch_sub(1, std::memory_order_release);
  }
}

}  // namespace palm
