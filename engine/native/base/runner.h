#pragma once
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>

#include "base/placement.h"
#include "base/threads.h"

namespace palm {

// A thread of its own place that does what its caller hands it, one thing at a time.
class Runner {
 public:
  // Throws Error if the system does not place it.
  explicit Runner(const Placement& placement);
  ~Runner();
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  // Throws Error if the thread stayed behind in a parent process.
  void check_process() const;

  // Calls body() there, and returns or throws what it does. Meanwhile `watch` is looked at here.
  template <class Body>
  void run(Body body, Watch* watch = nullptr) {
    run([](void* data) { (*static_cast<Body*>(data))(); }, &body, watch);
  }

 private:
  using Function = void (*)(void* data);
  // A condition that was slept on cannot be destroyed in a forked child.
  struct Bed {
    std::mutex mutex;  // for what follows
    std::condition_variable told, done;
    Function function = nullptr;
    void* data = nullptr;
    bool end = false;
    std::exception_ptr failure;
  };

  void run(Function function, void* data, Watch* watch);
  void stop();
  static void work(Bed& bed);

  std::unique_ptr<Bed> bed_ = std::make_unique<Bed>();
  int process_;
  std::thread thread_;
};

}  // namespace palm
