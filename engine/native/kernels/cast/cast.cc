// y = x in another type. A float becomes an integer by dropping its fraction; where it does not
// fit, the result is some integer, as in numpy.
#include <cmath>
#include <type_traits>

#include "base/step.h"

namespace palm {
namespace {

template <class To, class From>
To convert(From x) {
  if constexpr (std::is_same_v<To, bool>) {
    return x != From{};
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    // Through int64, where all that fits is defined.
    const double v = static_cast<double>(x);
    return static_cast<To>(std::fabs(v) < 9.2e18 ? static_cast<int64_t>(v) : INT64_MIN);
  } else {
    return static_cast<To>(x);
  }
}

using Run = void (*)(size_t begin, size_t end, const void* x, void* y);

template <class From, class To>
void cast(size_t begin, size_t end, const void* x, void* y) {
  for (size_t i = begin; i < end; ++i)
    static_cast<To*>(y)[i] = convert<To>(static_cast<const From*>(x)[i]);
}

template <class From>
Run find_to(DType to) {
  switch (to) {
    case DType::kFloat32: return &cast<From, float>;
    case DType::kFloat64: return &cast<From, double>;
    case DType::kInt8: return &cast<From, int8_t>;
    case DType::kUint8: return &cast<From, uint8_t>;
    case DType::kInt16: return &cast<From, int16_t>;
    case DType::kUint16: return &cast<From, uint16_t>;
    case DType::kInt32: return &cast<From, int32_t>;
    case DType::kUint32: return &cast<From, uint32_t>;
    case DType::kInt64: return &cast<From, int64_t>;
    case DType::kUint64: return &cast<From, uint64_t>;
    case DType::kBool: return &cast<From, bool>;
    case DType::kFloat16: break;
  }
  fail(Fault::kUnsupported, "no cast to %s", name_of(to));
}

Run find(DType from, DType to) {
  switch (from) {
    case DType::kFloat32: return find_to<float>(to);
    case DType::kFloat64: return find_to<double>(to);
    case DType::kInt8: return find_to<int8_t>(to);
    case DType::kUint8: return find_to<uint8_t>(to);
    case DType::kBool: return find_to<uint8_t>(to);
    case DType::kInt16: return find_to<int16_t>(to);
    case DType::kUint16: return find_to<uint16_t>(to);
    case DType::kInt32: return find_to<int32_t>(to);
    case DType::kUint32: return find_to<uint32_t>(to);
    case DType::kInt64: return find_to<int64_t>(to);
    case DType::kUint64: return find_to<uint64_t>(to);
    case DType::kFloat16: break;
  }
  fail(Fault::kUnsupported, "no cast from %s", name_of(from));
}

class Cast : public Step {
 public:
  explicit Cast(const Node& node)
      : run_(find(node.any_in(0).dtype, node.any_out().dtype)), count_(node.any_out().count) {
    if (node.any_in(0).count != count_) {
      fail(Fault::kModel, "%s into %s", node.any_in(0).text().c_str(),
           node.any_out().text().c_str());
    }
  }

  void run(const Buffers& b) const override {
    b.pool->parallel(count_, grain_of(kWorkOfTouching), [&](size_t begin, size_t end, int) {
      run_(begin, end, b.inputs[0], b.outputs[0]);
    });
  }

 private:
  Run run_;
  size_t count_;
};

}  // namespace

StepPtr make_cast(const Node& node) { return std::make_unique<Cast>(node); }

}  // namespace palm
