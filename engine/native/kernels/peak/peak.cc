#include "kernels/peak/peak.h"

#include <chrono>

namespace palm {

PeakFn find_peak(uint32_t isa) {
#define PALM_KERNEL(need, name) \
  if ((isa & (need)) == (need)) return &name;
#include "kernels/peak/kernels.inc"
#undef PALM_KERNEL
  PALM_EVERY_SET_WAS_TRIED;
}

double peak_flops(uint32_t isa, double seconds) {
  using Clock = std::chrono::steady_clock;
  using Seconds = std::chrono::duration<double>;
  constexpr size_t kRounds = 20000;  // some tenths of a millisecond: rarely interrupted
  const PeakFn run = find_peak(isa);
  const auto begin = Clock::now();
  volatile float sink = 0.f;
  double best = 0;
  auto last = begin;
  do {
    float sum = 0;
    const size_t operations = run(kRounds, &sum);
    sink = sum;
    const auto now = Clock::now();
    const double rate = static_cast<double>(operations) / Seconds(now - last).count();
    if (rate > best) best = rate;
    last = now;
  } while (Seconds(last - begin).count() < seconds);
  static_cast<void>(sink);
  return best;
}

}  // namespace palm
