#pragma once
#include "costs.h"

namespace palm {

// The attributes strides, dilations, pads, depthwise_activation and depthwise_activation_params are
// the depthwise convolution's; activation, activation_params and, for which see ConvShape in
// kernels/conv/conv.h, outputs_last are the other one's.
namespace separable {
enum Input {
  kX,
  kDepthwiseWeights,
  kDepthwiseBias,
  kDepthwiseSlope,
  kWeights,
  kBias,
  kSlope,
  kResidual
};
}  // namespace separable

// One, or none where it is no faster than two steps: threads share rows alone, and a block of rows
// and the weights that each block reads have to stay in an L2 cache.
std::vector<Candidate> separable_candidates(const Node& node);

}  // namespace palm
