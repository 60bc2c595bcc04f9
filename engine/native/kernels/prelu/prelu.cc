#include "kernels/binary/binary.h"

namespace palm {

PALM_OPERANDS(prelu, "x slope", "y")
StepPtr make_prelu(const Node& node) {
  return make_strided_binary(node, BinaryOp::kPrelu, "x_strides", "slope_strides");
}

}  // namespace palm
