// Gives every element of y the attribute's value.
#include <algorithm>
#include <cstring>

#include "base/step.h"

namespace palm {
namespace {

class Fill : public Step {
 public:
  explicit Fill(const Node& node) : y_(node.any_out()) {
    const double value = static_cast<double>(node.attrs.number("value", 0.f));
    const int64_t whole =
        static_cast<int64_t>(value == value && value > -9e18 && value < 9e18 ? value : 0);
    switch (y_.dtype) {
      case DType::kFloat32: set(static_cast<float>(value)); break;
      case DType::kFloat64: set(value); break;
      default:
        if (y_.dtype == DType::kFloat16 && value != 0)
          fail(Fault::kUnsupported, "float16 with a value other than 0");
        set(whole);  // little-endian: the low bytes are the value in every size
    }
  }

  void run(const Buffers& b) const override {
    const size_t size = size_of(y_.dtype);
    b.pool->parallel(y_.count, grain_of(kWorkOfTouching), [&](size_t begin, size_t end, int) {
      char* to = static_cast<char*>(b.outputs[0]) + begin * size;
      if (size == 1) {
        std::memset(to, static_cast<unsigned char>(bytes_[0]), end - begin);
        return;
      }
      for (size_t i = begin; i < end; ++i, to += size) std::copy(bytes_, bytes_ + size, to);
    });
  }

 private:
  template <class T>
  void set(T value) {
    const char* const from = reinterpret_cast<const char*>(&value);
    std::copy(from, from + sizeof(T), bytes_);
  }

  Tensor y_;
  char bytes_[8] = {};
};

}  // namespace

PALM_OPERANDS(fill, "", "y")
StepPtr make_fill(const Node& node) { return std::make_unique<Fill>(node); }

}  // namespace palm
