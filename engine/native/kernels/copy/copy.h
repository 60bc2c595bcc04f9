#pragma once
#include "base/step.h"

namespace palm {

// What a copy into y is expected to take on one core, as kernels/conv/cost.h has it.
double copy_seconds(const Tensor& y);

}  // namespace palm
