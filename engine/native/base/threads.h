#pragma once
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace palm {

// A caller and `threads - 1` workers that split loops. Workers spin a short while between loops,
// then sleep. One thread of control may use a pool at a time.
class Pool {
 public:
  explicit Pool(int threads);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Throws Error if the workers stayed behind in a parent process.
  void check_process() const;

  // Calls body(begin, end, thread) over parts of [0, count) of at least `grain`, but for the last.
  template <class Body>
  void parallel(size_t count, size_t grain, Body body) {
    const size_t most = grain ? count / grain : count;
    const size_t wanted = static_cast<size_t>(threads());
    const size_t parts = most < wanted ? most : wanted;
    if (parts <= 1) {
      if (count) body(size_t{0}, count, 0);
      return;
    }
    struct Job {
      size_t count, parts;
      Body* body;
    } job{count, parts, &body};
    run(
        [](void* data, int thread) {
          const Job& j = *static_cast<Job*>(data);
          const size_t t = static_cast<size_t>(thread);
          if (t < j.parts) (*j.body)(j.count * t / j.parts, j.count * (t + 1) / j.parts, thread);
        },
        &job);
  }

 private:
  using Function = void (*)(void* data, int thread);

  void run(Function function, void* data);
  void work(int thread);
  void stop();

  std::vector<std::thread> workers_;
  Function function_ = nullptr;
  void* data_ = nullptr;
  int process_ = 0;
  bool stop_ = false;
  std::mutex mutex_;
  std::condition_variable wake_;
  alignas(64) std::atomic<uint64_t> epoch_{0};
  alignas(64) std::atomic<int> busy_{0};
  alignas(64) std::atomic<int> sleepers_{0};
};

}  // namespace palm
