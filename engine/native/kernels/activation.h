#pragma once
#include <vector>

#include "base/step.h"
#include "kernels/epilogue.h"
#include "kernels/unary/unary.h"

namespace palm {

// What follows a kernel's own sum, after the attributes activation and activation_params.
class Activation {
 public:
  // `slope_input`: the node's input with the slopes of "prelu".
  Activation(const Node& node, size_t slope_input, size_t channels);

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

}  // namespace palm
