#include "base/runner.h"

#include <unistd.h>

#include <system_error>
#include <utility>

#include "base/error.h"

namespace palm {

Runner::Runner(const Placement& placement) : process_(getpid()) {
  try {
    thread_ = std::thread([bed = bed_.get()] { work(*bed); });
  } catch (const std::system_error& error) {
    fail(Fault::kBackend, "threads: started none: %s", error.what());
  }
  try {
    run([&] { placement.apply(); });
  } catch (...) {
    stop();
    throw;
  }
}

Runner::~Runner() {
  if (process_ == getpid()) {
    stop();
  } else {
    // See Pool's.
    static_cast<void>(new std::thread(std::move(thread_)));
    static_cast<void>(bed_.release());
  }
}

void Runner::stop() {
  {
    const std::lock_guard<std::mutex> lock(bed_->mutex);
    bed_->end = true;
  }
  bed_->told.notify_one();
  thread_.join();
}

void Runner::check_process() const {
  if (process_ != getpid())
    fail(Fault::kBackend, "a session with a thread of its own does not survive a fork");
}

void Runner::run(Function function, void* data, Watch* watch) {
  std::unique_lock<std::mutex> lock(bed_->mutex);
  bed_->data = data;
  bed_->function = function;
  bed_->told.notify_one();
  const auto is_done = [&] { return !bed_->function; };
  while (!bed_->done.wait_for(lock, Watch::kBetweenAsking, is_done)) {
    if (!watch) continue;
    lock.unlock();
    watch->ask();
    lock.lock();
  }
  if (bed_->failure) std::rethrow_exception(std::exchange(bed_->failure, nullptr));
}

void Runner::work(Bed& bed) {
  std::unique_lock<std::mutex> lock(bed.mutex);
  for (;;) {
    bed.told.wait(lock, [&] { return bed.function || bed.end; });
    if (bed.end) return;
    lock.unlock();
    std::exception_ptr failure;
    try {
      bed.function(bed.data);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    bed.failure = failure;
    bed.function = nullptr;
    bed.done.notify_one();
  }
}

}  // namespace palm
