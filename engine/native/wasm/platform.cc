#include "wasm/platform.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>

#define PALM_IMPORT(name) extern "C" __attribute__((import_module("palm"), import_name(name)))
#define PALM_EXPORT(name) extern "C" __attribute__((export_name(#name)))

// Throws in the host.
PALM_IMPORT("throw") [[noreturn]] void palm_host_throw(int32_t status, const char* text);

namespace palm::wasm {
namespace {

constexpr int32_t kBackend = 4;  // PALM_ERROR_BACKEND
constexpr size_t kMostThreads = 256;
// No piece of a loop takes a thread nearly as long (base/threads.cc), unless it does not run. What
// it spent between two looks is a second at most: all may have stood still, as in a machine asleep.
constexpr int64_t kSecond = 1'000'000'000, kPatience = 20 * kSecond;  // ns

struct Failure {
  std::atomic<int32_t> is_there{0}, is_taken{0};
  int32_t status = 0;
  char text[512] = "";
};
Failure failure;

struct Slot {
  std::atomic<int32_t> is_free{0};
  Task* task = nullptr;
};
Slot slots[kMostThreads];
int32_t slot_count = 0;
thread_local bool is_given = false;  // by the host

// Tells the others. The first failure is kept.
void fail_all(int32_t status, const char* text) {
  if (failure.is_taken.exchange(1)) return;
  failure.status = status;
  std::strncpy(failure.text, text, sizeof failure.text - 1);
  failure.is_there = 1;
}

void look() {
  if (failure.is_there.load(std::memory_order_acquire) && !is_given)
    throw_out(failure.status, failure.text);
}

#if defined(__wasm_atomics__)
constexpr int64_t kTenth = 100'000'000;  // ns
void sleep(std::atomic<int32_t>& word, int32_t expected, int64_t nanoseconds) {
  __builtin_wasm_memory_atomic_wait32(reinterpret_cast<int*>(&word), expected, nanoseconds);
}
#endif

}  // namespace

void throw_out(int32_t status, const char* text) {
  if (is_given) fail_all(status, text);
  palm_host_throw(status, text);
}

void Task::finish() {
  run();
  done_ = 1;
  wake(done_);
}

void Task::wait() {
  for (Patience patience; !done_; patience.look()) wasm::wait(done_, 0);
}

void Patience::look() {
  if (is_given) return;
  using Clock = std::chrono::steady_clock;
  const int64_t now = std::chrono::nanoseconds(Clock::now().time_since_epoch()).count();
  if (last_) spent_ += std::min(now - last_, kSecond);
  last_ = now;
  if (spent_ > kPatience)
    throw_out(kBackend, "a thread is gone (nothing came in 20 s): open the model or kit again");
}

void start(Task& task) {
  // Who joined a thread may be here before that has come back for more.
  constexpr int kMostLooks = 10'000;
  for (int looks = 0; looks < kMostLooks; ++looks, yield()) {
    for (int32_t i = 0; i < slot_count; ++i) {
      if (!slots[i].is_free) continue;
      slots[i].task = &task;
      slots[i].is_free = 0;
      wake(slots[i].is_free);
      return;
    }
  }
  throw_out(kBackend, "threads: the host gave too few");
}

void wait([[maybe_unused]] std::atomic<int32_t>& word, [[maybe_unused]] int32_t expected) {
#if defined(__wasm_atomics__)
  sleep(word, expected, kTenth);
#endif
  look();
}

void wake([[maybe_unused]] std::atomic<int32_t>& word) {
#if defined(__wasm_atomics__)
  __builtin_wasm_memory_atomic_notify(reinterpret_cast<int*>(&word), UINT32_MAX);
#endif
}

void yield() {
#if defined(__wasm_atomics__)
  static std::atomic<int32_t> nobody{0};
  constexpr int64_t kShort = 20'000;
  sleep(nobody, 0, kShort);
#endif
  look();
}

}  // namespace palm::wasm

using namespace palm::wasm;

// ---- For the host

// One more thread, which palm_thread serves in an instance of its own; -1: there are enough.
PALM_EXPORT(palm_thread_add) int32_t palm_thread_add() {
  if (slot_count == static_cast<int32_t>(kMostThreads)) return -1;
  slots[slot_count].is_free = 1;
  return slot_count++;
}

// Does what tasks there are, for as long as the thread lives.
PALM_EXPORT(palm_thread) void palm_thread(int32_t index) {
  is_given = true;
  Slot& slot = slots[index];
  for (;;) {
    while (slot.is_free) wait(slot.is_free, 1);
    slot.task->finish();
    slot.is_free = 1;
  }
}

// The thread ended otherwise than by throw_out.
PALM_EXPORT(palm_thread_failed) void palm_thread_failed() {
  fail_all(kBackend, "a thread is gone (it failed): open the model or kit again");
}

PALM_EXPORT(palm_take) void* palm_take(size_t bytes) {
  constexpr size_t kAlignment = 64;
  void* data = nullptr;
  return posix_memalign(&data, kAlignment, bytes ? bytes : 1) ? nullptr : data;
}
PALM_EXPORT(palm_give_back) void palm_give_back(void* data) { std::free(data); }

// ---- For C++, of whose own library throwing and threads are left out

extern "C" void* __cxa_allocate_exception(size_t size) {
  void* const room = std::malloc(size);
  if (!room) throw_out(kBackend, "out of memory");
  return room;
}

extern "C" [[noreturn]] void __cxa_throw(void* thrown, void* type, void (*)(void*)) {
  const Thrown what = describe(thrown, type);
  throw_out(what.status, what.text);
}

void* operator new(size_t size) {
  void* const room = std::malloc(size ? size : 1);
  if (!room) throw_out(kBackend, "out of memory");
  return room;
}
void operator delete(void* room) noexcept { std::free(room); }
void operator delete(void* room, size_t) noexcept { std::free(room); }
