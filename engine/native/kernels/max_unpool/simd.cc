#include "kernels/max_unpool/body.h"

namespace palm {

bool PALM_FN(unpool_f32)(const Unpool<float>& unpool) { return unpool_any(unpool); }

}  // namespace palm
