#include "kernels/activation.h"

#include <algorithm>
#include <cmath>

#include "base/needs.h"

namespace palm {
namespace {

float param(const Floats& params, size_t i, float missing) {
  return i < params.size() ? static_cast<float>(params[i]) : missing;
}

}  // namespace

Activation::Activation(const Node& node, size_t slope_input, size_t channels, const char* name_,
                       const char* params_)
    : low_(-INFINITY), high_(INFINITY) {
  const std::string name = node.attrs.text(name_, "");
  const Floats params = node.attrs.numbers(params_, {});
  const float* slope = node.input(slope_input) ? node.constant(slope_input, channels) : nullptr;
  if ((slope != nullptr) != (name == "prelu"))
    fail(Fault::kModel, "activation prelu and a slope come together, got %.40s", name.c_str());
  if (name.empty()) return;
  if (name == "clip") {
    low_ = param(params, 0, -INFINITY);
    high_ = param(params, 1, INFINITY);
  } else if (name == "prelu") {
    slope_.assign(slope, slope + channels);
  } else if (name == "leaky_relu") {
    slope_.assign(channels, param(params, 0, 0.01f));
  } else if constexpr (kNeedsFunctions) {
    op_ = unary_by_name(name);
    unary_ = find_unary(node.isa);
    const UnaryDefaults defaults = unary_defaults(op_);
    alpha_ = param(params, 0, defaults.alpha);
    beta_ = param(params, 1, defaults.beta);
  } else {
    fail(Fault::kUnsupported, "no activation %.40s", name.c_str());
  }
}

void Activation::repeat(size_t times) {
  const std::vector<float> once = slope_;
  for (size_t i = 1; i < times; ++i) slope_.insert(slope_.end(), once.begin(), once.end());
}

Epilogue Activation::epilogue(const float* bias) const {
  Epilogue e;
  e.bias = bias;
  e.slope = slope_.empty() ? nullptr : slope_.data();
  e.low = low_;
  e.high = high_;
  if (unary_) {
    e.post_data = this;
    e.post = [](const void* data, size_t pixels, size_t channels, float* y, size_t stride) {
      const Activation& a = *static_cast<const Activation*>(data);
      a.unary_(a.op_, a.alpha_, a.beta_, pixels, channels, y, stride, y, stride);
    };
  }
  return e;
}

size_t residual_channels(const Node& node, size_t i, size_t channels) {
  if (!node.input(i)) return 0;
  const Tensor &z = node.any_in(i), &y = node.any_out();
  if (z.rank() != 4 || !std::equal(z.shape.begin(), z.shape.end() - 1, y.shape.begin()) ||
      z.shape[3] > channels) {
    fail(Fault::kModel, "residual %s for %s", z.text().c_str(), y.text().c_str());
  }
  return z.shape[3];
}

}  // namespace palm
