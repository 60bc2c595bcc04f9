#pragma once
// A plan of one step, for tests and benches.
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/bf16.h"
#include "base/check.h"
#include "program.h"

namespace palm {

// The nearest of bfloat16, and the same as float.
inline std::vector<Bf16> narrow_all(const Vector& x) {
  std::vector<Bf16> to;
  for (float v : x) to.push_back(narrow(v));
  return to;
}
inline Vector widen_all(const std::vector<Bf16>& x) {
  Vector to;
  for (Bf16 v : x) to.push_back(widen(v));
  return to;
}
// Equal bits, or both NaN.
inline bool is_same(Bf16 a, Bf16 b) {
  const float u = widen(a), v = widen(b);
  return a.bits == b.bits || u == v || (u != u && v != v);
}

// Room for a step whose attribute y_offset says where in wider pixels its channels are.
struct WideOutput {
  WideOutput(Random& random, size_t pixels, size_t channels_)
      : channels(channels_),
        before(random.between(0, 20)),
        all(before + channels + random.between(0, 20)),
        values(pixels * all + 1, kUntouched) {}

  // Whether it has y in its place, and is as it was elsewhere. A NaN is any other.
  template <class Numbers>
  bool is(const Numbers& y) const {
    for (size_t i = 0; i < values.size(); ++i) {
      const size_t channel = i % all - before;
      const bool is_written = channel < channels && i + 1 < values.size();
      const float wanted = is_written ? y[i / all * channels + channel] : kUntouched;
      if (values[i] != wanted && !(std::isnan(values[i]) && std::isnan(wanted))) return false;
    }
    return true;
  }

  static constexpr float kUntouched = 77.f;  // a number of each type
  size_t channels, before, all;
  Vector values;
};

class OneStep {
 public:
  explicit OneStep(std::string kernel) { step_.kernel = std::move(kernel); }

  // The next input; the values must outlive this.
  template <class Values>
  OneStep& input(DType dtype, std::vector<size_t> shape, const Values& values,
                 bool constant = false) {
    Tensor tensor(dtype, std::move(shape));
    if (constant) tensor.constant = values.data();
    std::vector<Array>& list = constant ? constants_ : inputs_;
    step_.inputs.push_back(static_cast<int64_t>(tensors_.size()));
    list.push_back({values.data(), dtype, values.size()});
    tensors_.push_back({constant ? Place::kConstant : Place::kInput, list.size() - 1, tensor});
    return *this;
  }
  OneStep& input(std::vector<size_t> shape, const Vector& values, bool constant = false) {
    return input(DType::kFloat32, std::move(shape), values, constant);
  }
  OneStep& no_input() {
    step_.inputs.push_back(-1);
    return *this;
  }
  // The next output.
  OneStep& output(DType dtype, std::vector<size_t> shape) {
    const size_t slot = step_.outputs.size();
    step_.outputs.push_back(static_cast<int64_t>(tensors_.size()));
    tensors_.push_back({Place::kOutput, slot, Tensor(dtype, std::move(shape))});
    return *this;
  }
  OneStep& output(std::vector<size_t> shape) { return output(DType::kFloat32, std::move(shape)); }
  OneStep& attr(const std::string& name, Attr value) {
    step_.attrs.set(name, std::move(value));
    return *this;
  }

  // The step as its kernel sees it.
  Node node(uint32_t isa) const { return node_of(tensors_, step_, isa); }

  // Ready to run() into the outputs. eager: see Pool.
  OneStep& make(uint32_t isa, int threads, bool eager = false) {
    session_.reset();
    program_ =
        std::make_unique<Program>(tensors_, std::vector<StepSpec>{step_}, constants_, 0, isa);
    session_ = std::make_unique<Session>(*program_, threads, eager);
    return *this;
  }
  void run(const std::vector<void*>& outputs) {
    std::vector<Array> arrays;
    for (size_t i = 0; i < outputs.size(); ++i) {
      const Tensor& t = tensors_[static_cast<size_t>(step_.outputs[i])].tensor;
      arrays.push_back({outputs[i], t.dtype, t.count});
    }
    session_->run(inputs_, arrays);
  }
  void run(float* y, size_t count) { session_->run(inputs_, {{y, DType::kFloat32, count}}); }

 private:
  std::vector<TensorSpec> tensors_;
  std::vector<Array> inputs_, constants_;
  StepSpec step_;
  std::unique_ptr<Program> program_;
  std::unique_ptr<Session> session_;
};

}  // namespace palm
