#pragma once
// What WebAssembly has in place of a system: who made the instance throws for it, and gives it
// threads, which are instances of the same module on the same memory.
#include <atomic>
#include <cstdint>

namespace palm::wasm {

// Ends the call from outside by what the host throws: nothing on the way is destroyed, so the
// instance is of no more use. In a thread that the host gave, it also ends the others' waiting.
[[noreturn]] void throw_out(int32_t status, const char* text);

// What throw_out is to be given for what was thrown: a status of the module's own interface.
struct Thrown {
  int32_t status;
  const char* text;
};
Thrown describe(void* thrown, const void* type);

// What a thread is to do.
class Task {
 public:
  virtual ~Task() = default;
  virtual void run() = 0;
  void finish();  // run it, and let go who waits
  void wait();

 private:
  std::atomic<int32_t> done_{0};
};

// Gives a task to a thread that has none; called by one thread alone. Throws out if all have one.
void start(Task& task);

// Of one wait for what the host's threads are to do, each of which may end without a word: what it
// had taken is never done then, and what it held is not let go.
class Patience {
 public:
  // Between two looks at what is waited for. Throws out once they took too long; not in a thread
  // that the host gave, which the session ends.
  void look();

 private:
  int64_t last_ = 0, spent_ = 0;  // ns
};

// Sleep while a word is `expected`, a tenth of a second at most. Throws out if a thread failed.
void wait(std::atomic<int32_t>& word, int32_t expected);
void wake(std::atomic<int32_t>& word);
// Lets others run. Throws out if a thread failed.
void yield();

// Whether body(data) throws out: only tests have it.
bool refuses(void (*body)(void* data), void* data);

}  // namespace palm::wasm
