#pragma once
#include <vector>

#include "base/step.h"
#include "kernels/epilogue.h"
#include "kernels/unary/unary.h"

namespace palm {

// What follows a kernel's own sum.
class Activation {
 public:
  // `slope_input`: the node's input with the slopes of "prelu". `name`, `params`: the attributes that
  // say what it is.
  Activation(const Node& node, size_t slope_input, size_t channels, const char* name = "activation",
             const char* params = "activation_params");

  // For `times` times the channels, all of them one after another.
  void repeat(size_t times);

  // The result points into this Activation.
  Epilogue epilogue(const float* bias) const;

 private:
  float low_, high_;
  std::vector<float> slope_;
  UnaryFn unary_ = nullptr;
  UnaryOp op_ = UnaryOp::kClip;
  float alpha_ = 0, beta_ = 0;
};

// The channels of input i, which is added to the first of the `channels` that the node writes; 0 if
// it is left out. Throws Error unless its pixels are the output's.
size_t residual_channels(const Node& node, size_t i, size_t channels);

}  // namespace palm
