#pragma once
// What the kernels' tests and benches share.
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <vector>

#include "base/arena.h"
#include "base/cpu.h"
#include "base/error.h"
#if defined(__wasm__)
#include "wasm/platform.h"
#endif

#define PALM_CHECK(ok, ...)                                \
  do {                                                     \
    if (!(ok)) {                                           \
      std::fprintf(stderr, "%s:%d: ", __FILE__, __LINE__); \
      std::fprintf(stderr, __VA_ARGS__);                   \
      std::fputc('\n', stderr);                            \
      std::exit(1);                                        \
    }                                                      \
  } while (0)

namespace palm {

// True if `got` is `expected` to within `tolerance` of it or of 1; a NaN is only like a NaN.
inline bool is_close(float got, double expected, double tolerance) {
  if (std::isnan(expected)) return std::isnan(got);
  if (std::isinf(expected)) return static_cast<double>(got) == expected;
  return std::fabs(got - expected) <= tolerance * std::fmax(1.0, std::fabs(expected));
}

// Whether body() throws Error.
template <class Body>
bool refuses(Body body) {
#if defined(__wasm__)
  return wasm::refuses([](void* data) { (*static_cast<Body*>(data))(); }, &body);
#else
  try {
    body();
  } catch (const Error&) { return true; }
  return false;
#endif
}

// The per cent of the cases of slow tests that $PALM_TRIALS says are tried, as an emulated machine
// takes long for each; all without it.
inline size_t tried_percent() {
  const char* const share = std::getenv("PALM_TRIALS");
  if (!share) return 100;
  const long percent = std::strtol(share, nullptr, 10);
  PALM_CHECK(percent > 0 && percent <= 100, "PALM_TRIALS: expected 1 to 100, got %s", share);
  return static_cast<size_t>(percent);
}

// How many of so many random cases.
inline size_t trials(size_t all) { return (all * tried_percent() + 99) / 100; }

// From one size that is tried to the next. It is odd: sizes leave every remainder by a vector's.
inline size_t trial_step() { return (100 / tried_percent() - 1) | 1; }

inline bool runs_here(uint32_t need) { return (host_isa() & need) == need; }

// Seconds per call, the best of `rounds` of about `budget_s` each.
template <class F>
double best_seconds(F f, double budget_s = 0.002, int rounds = 40) {
  using Clock = std::chrono::steady_clock;
  // Tests of the benches themselves only want to see that they run.
  if (std::getenv("PALM_BENCH_ONCE")) budget_s = 0, rounds = 1;
  f();
  double best = 1e9;
  for (int r = 0; r < rounds; ++r) {
    const auto t0 = Clock::now();
    std::chrono::duration<double> spent{0};
    int calls = 0;
    do {
      f();
      ++calls;
      spent = Clock::now() - t0;
    } while (spent.count() < budget_s);
    best = std::fmin(best, spent.count() / calls);
  }
  return best;
}

// Begins on a cache line, as a session's arena does.
template <class T>
struct AlignedAllocator {
  using value_type = T;
  AlignedAllocator() = default;
  template <class U>
  AlignedAllocator(const AlignedAllocator<U>&) {}
  T* allocate(size_t n) {
    return static_cast<T*>(
        ::operator new(round_up(n * sizeof(T) + 1), std::align_val_t{kAlignment}));
  }
  void deallocate(T* p, size_t) { ::operator delete(p, std::align_val_t{kAlignment}); }
  bool operator==(const AlignedAllocator&) const { return true; }
  bool operator!=(const AlignedAllocator&) const { return false; }
};
using Vector = std::vector<float, AlignedAllocator<float>>;

// Numbers in [-1, 1) that are the same on every machine.
class Random {
 public:
  uint32_t bits() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>(state_ >> 32);
  }
  float next() { return static_cast<float>(static_cast<int32_t>(bits())) * (1.f / 2147483648.f); }
  size_t between(size_t least, size_t most) { return least + bits() % (most - least + 1); }
  Vector floats(size_t n, float scale = 1.f) {
    Vector v(n);
    for (float& x : v) x = next() * scale;
    return v;
  }

 private:
  uint64_t state_ = 1;
};

}  // namespace palm
