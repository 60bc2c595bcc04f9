#include "kernels/pool/body.h"

namespace palm {

void PALM_FN(pool_f32)(bool max, size_t taps, size_t pixels, size_t n, const float* const* x,
                       size_t step, float scale, float* y) {
  pool_any(max, taps, pixels, n, x, step, scale, y);
}

}  // namespace palm
