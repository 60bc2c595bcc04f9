#pragma once
// A plan of one step, for tests and benches.
#include <algorithm>
#include <cstring>
#include <list>
#include <memory>
#include <sstream>
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
  // Of the last input or output, this part is the operand.
  OneStep& seen_as(std::vector<size_t> shape, Ints strides, int64_t offset) {
    TensorSpec spec = tensors_.back();
    spec.tensor = Tensor(spec.tensor.dtype, std::move(shape), std::move(strides));
    spec.offset = static_cast<size_t>(offset);
    const bool is_output = spec.place == Place::kOutput;
    (is_output ? step_.outputs : step_.inputs).back() = static_cast<int64_t>(tensors_.size());
    tensors_.push_back(std::move(spec));
    return *this;
  }
  OneStep& attr(const std::string& name, Attr value) {
    step_.attrs.set(name, std::move(value));
    return *this;
  }

  // The same step, with its constants, on arrays that are some channels of wider pixels each,
  // wherever its kernel takes such. Beside them is what is no number.
  OneStep in_wider_pixels(Random& random) const {
    OneStep wide(step_.kernel);
    wide.step_.attrs = step_.attrs;
    wide.constants_ = constants_;
    const std::vector<KernelEntry> known = kernels();
    const auto entry = std::find_if(known.begin(), known.end(), [&](const KernelEntry& each) {
      return each.name == step_.kernel;
    });
    const char* const names[] = {entry->operands.inputs, entry->operands.outputs};
    for (const bool is_output : {false, true}) {
      std::istringstream words(names[is_output]);
      std::string name;
      for (int64_t i : is_output ? step_.outputs : step_.inputs) {
        words >> name;
        auto& list = is_output ? wide.step_.outputs : wide.step_.inputs;
        if (i < 0) {
          list.push_back(i);
          continue;
        }
        TensorSpec spec = tensors_[static_cast<size_t>(i)];
        if (spec.place == Place::kInput) wide.inputs_.push_back(inputs_[spec.slot]);
        if (spec.place != Place::kConstant && name.find("/pixels") != std::string::npos)
          wide.widen_pixels(spec, random);
        list.push_back(static_cast<int64_t>(wide.tensors_.size()));
        wide.tensors_.push_back(std::move(spec));
      }
    }
    return wide;
  }

  // Of a step in wider pixels with one output: whether it writes `expected`, a NaN being any other,
  // and no other channel.
  template <class Values>
  bool writes(const Values& expected) {
    using T = std::decay_t<decltype(expected[0])>;
    std::vector<T> y(output_count_ + 1);
    std::memset(static_cast<void*>(y.data()), 0x4d, y.size() * sizeof(T));
    const std::vector<T> before = y;
    const Tensor& part = tensors_.back().tensor;
    const size_t channels = part.shape.back(), first = tensors_.back().offset;
    const size_t pixel = tensors_[tensors_.size() - 2].tensor.shape.back();
    session_->run(inputs_, {{y.data(), part.dtype, output_count_}});
    for (size_t i = 0; i < y.size(); ++i) {
      const size_t channel = i % pixel - first, at = i / pixel * channels + channel;
      const bool is_written = channel < channels && at < part.count && i < output_count_;
      const T& wanted = is_written ? expected[at] : before[i];
      if (std::memcmp(&y[i], &wanted, sizeof(T)) != 0 && !is_same_number(y[i], wanted)) return false;
    }
    return true;
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
  static bool is_same_number(float a, float b) { return a == b || (a != a && b != b); }
  static bool is_same_number(Bf16 a, Bf16 b) { return is_same(a, b); }
  template <class T>
  static bool is_same_number(T, T) {
    return false;
  }

  // The array becomes some channels of one that is added to the tensors; an input's values are
  // copied there.
  void widen_pixels(TensorSpec& spec, Random& random) {
    Tensor& t = spec.tensor;
    const size_t channels = t.shape.back(), size = size_of(t.dtype);
    const size_t before = random.between(0, 20), all = before + channels + random.between(0, 20);
    std::vector<size_t> shape = t.shape;
    shape.back() = all;
    Tensor whole(t.dtype, shape);
    if (spec.place == Place::kInput) {
      auto& bytes = owned_.emplace_back(whole.bytes(), static_cast<char>(0xff));
      Array& array = inputs_[spec.slot];
      for (size_t i = 0; i < t.count / std::max<size_t>(channels, 1); ++i) {
        std::memcpy(bytes.data() + (i * all + before) * size,
                    static_cast<const char*>(array.data) + i * channels * size, channels * size);
      }
      array = {bytes.data(), t.dtype, whole.count};
    } else {
      output_count_ = whole.count;
    }
    tensors_.push_back({spec.place, spec.slot, whole});
    t = Tensor(t.dtype, t.shape, whole.all_strides());
    spec.offset = before;
  }

  std::list<std::vector<char>> owned_;
  size_t output_count_ = 0;
  std::vector<TensorSpec> tensors_;
  std::vector<Array> inputs_, constants_;
  StepSpec step_;
  std::unique_ptr<Program> program_;
  std::unique_ptr<Session> session_;
};

}  // namespace palm
