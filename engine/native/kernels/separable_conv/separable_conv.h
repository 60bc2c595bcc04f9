#pragma once
#include "costs.h"

namespace palm {

// The attributes strides, dilations, pads, depthwise_activation and depthwise_activation_params are
// the depthwise convolution's; activation, activation_params and, for which see ConvShape in
// kernels/conv/conv.h, outputs_last are the other one's.
namespace separable {
constexpr Operands kOperands{
    "image/pixels depthwise_weights depthwise_bias depthwise_slope weights bias slope "
    "residual/pixels",
    "y/pixels"};
constexpr size_t kX = kOperands.input("image"),
                 kDepthwiseWeights = kOperands.input("depthwise_weights"),
                 kDepthwiseBias = kOperands.input("depthwise_bias"),
                 kDepthwiseSlope = kOperands.input("depthwise_slope"),
                 kWeights = kOperands.input("weights"), kBias = kOperands.input("bias"),
                 kSlope = kOperands.input("slope"), kResidual = kOperands.input("residual");
}  // namespace separable

// One, or none where it is no faster than two steps: threads share rows alone, and a block of rows
// and the weights that each block reads have to stay in an L2 cache.
std::vector<Candidate> separable_candidates(const Node& node);

}  // namespace palm
