#include "base/simd.h"
#include "kernels/pool/pool.h"

namespace palm {
namespace {

F32 max_or_nan(F32 a, F32 b) { return if_nan(a, a, max(a, b)); }

F32 pool(bool is_max, size_t taps, const float* const* x, size_t c, size_t n, F32 scale) {
  F32 y = F32::load(x[0] + c, n);
  if (is_max) {
    for (size_t t = 1; t < taps; ++t) y = max_or_nan(y, F32::load(x[t] + c, n));
    return y;
  }
  for (size_t t = 1; t < taps; ++t) y = y + F32::load(x[t] + c, n);
  return y * scale;
}

}  // namespace

void PALM_FN(pool_f32)(bool is_max, size_t taps, size_t n, const float* const* x, float scale,
                       float* y) {
  for (size_t c = 0; c < n; c += F32::lanes) {
    const size_t left = n - c < F32::lanes ? n - c : F32::lanes;
    pool(is_max, taps, x, c, left, F32::set(scale)).store(y + c, left);
  }
}

}  // namespace palm
