#include "kernels/pool/body.h"

namespace palm {
namespace {

template <>
size_t max_whole(size_t taps, const Bf16* const* x, size_t at, size_t n, Bf16* y) {
  const Bf16s below = Bf16s::set(kMinusInfinity).key(), nan = Bf16s::set(kNan);
  size_t c = 0;
  for (; c + Bf16s::lanes <= n; c += Bf16s::lanes) {
    Bf16s most = Bf16s::load(x[0] + at + c).key(), least = most;
    for (size_t t = 1; t < taps; ++t) {
      const Bf16s k = Bf16s::load(x[t] + at + c).key();
      most = max(most, k), least = min(least, k);
    }
    less(least, below, nan, most.key()).store(y + c);
  }
  return c;
}

}  // namespace

void PALM_FN(pool_bf16)(bool max, size_t taps, size_t pixels, size_t n, const Bf16* const* x,
                        size_t step, float scale, Bf16* y) {
  pool_any(max, taps, pixels, n, x, step, scale, y);
}

}  // namespace palm
