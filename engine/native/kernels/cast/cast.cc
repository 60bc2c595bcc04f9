// y = x in another type. A float becomes an integer by dropping its fraction; where it does not
// fit, the result is some integer, as in numpy.
#include <cmath>
#include <cstring>
#include <type_traits>

#include "base/step.h"
#include "kernels/cast_bf16/cast_bf16.h"

namespace palm {
namespace {

struct Half {
  uint16_t bits;
};

template <class To>
To as(uint32_t bits) {
  To value;
  static_assert(sizeof value == sizeof bits);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

float widen(Half half) {
  const uint32_t sign = static_cast<uint32_t>(half.bits & 0x8000) << 16, rest = half.bits & 0x7fffu;
  // Exponent and fraction in their places, as if the bias were that of float.
  constexpr float kScale = 5192296858534827628530496329220096.f;  // 2^112
  uint32_t bits;
  const float scaled = as<float>(rest << 13) * kScale;
  std::memcpy(&bits, &scaled, sizeof bits);
  if (rest >= 0x7c00) bits = rest << 13 | 0x7f800000u;
  return as<float>(sign | bits);
}

// To the nearest, halves to even.
Half narrow(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  const uint32_t sign = bits >> 16 & 0x8000u;
  bits &= 0x7fffffffu;
  uint32_t result;
  if (bits > 0x7f800000u) {
    result = 0x7e00u;
  } else if (bits >= 0x47800000u) {  // 65536
    result = 0x7c00u;
  } else if (bits < 0x38800000u) {  // 2^-14: the sum drops what a small half cannot hold
    const float sum = as<float>(bits) + 0.5f;
    std::memcpy(&result, &sum, sizeof result);
    result -= 0x3f000000u;
  } else {
    result = (bits + 0xfffu + (bits >> 13 & 1u) - 0x38000000u) >> 13;
  }
  return {static_cast<uint16_t>(sign | result)};
}

template <class To, class From>
To convert_number(From x) {
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

template <class To, class From>
To convert(From x) {
  if constexpr (std::is_same_v<From, Half>) return convert<To>(widen(x));
  else if constexpr (std::is_same_v<To, Half>) return narrow(static_cast<float>(x));
  else return convert_number<To>(x);
}

using Run = void (*)(size_t begin, size_t end, const void* x, void* y);

template <class From, class To>
void cast(size_t begin, size_t end, const void* x, void* y) {
  for (size_t i = begin; i < end; ++i)
    static_cast<To*>(y)[i] = convert<To>(static_cast<const From*>(x)[i]);
}

template <class From>
Run find_unsigned(DType to) {
  if constexpr (!std::is_integral_v<From>) {
    if (to == DType::kUint8) return &cast<From, uint8_t>;
    if (to == DType::kUint16) return &cast<From, uint16_t>;
    if (to == DType::kUint32) return &cast<From, uint32_t>;
    return &cast<From, uint64_t>;
  }
  return nullptr;
}

template <class From>
Run find_to(DType to) {
  // The same bits, whether they are read with a sign or without.
  if constexpr (std::is_integral_v<From>) {
    if (to == DType::kUint8) to = DType::kInt8;
    if (to == DType::kUint16) to = DType::kInt16;
    if (to == DType::kUint32) to = DType::kInt32;
    if (to == DType::kUint64) to = DType::kInt64;
  }
  switch (to) {
    case DType::kFloat32: return &cast<From, float>;
    case DType::kFloat64: return &cast<From, double>;
    case DType::kInt8: return &cast<From, int8_t>;
    case DType::kInt16: return &cast<From, int16_t>;
    case DType::kInt32: return &cast<From, int32_t>;
    case DType::kInt64: return &cast<From, int64_t>;
    case DType::kBool: return &cast<From, bool>;
    case DType::kUint8:
    case DType::kUint16:
    case DType::kUint32:
    case DType::kUint64: return find_unsigned<From>(to);
    case DType::kBfloat16: break;
    case DType::kFloat16:
      // Of a double, two roundings would not be numpy's one.
      if constexpr (!std::is_same_v<From, double>) return &cast<From, Half>;
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
    case DType::kFloat16: return find_to<Half>(to);
    case DType::kBfloat16: break;
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

// Between float32 and the numbers of base/bf16.h.
class CastBf16 : public Step {
 public:
  explicit CastBf16(const Node& node)
      : kernel_(find_cast_bf16(node.isa)),
        narrows_(node.any_out().dtype == kNarrow),
        count_(node.any_out().count) {
    const Tensor& x = node.in(0, narrows_ ? DType::kFloat32 : kNarrow);
    const Tensor& y = node.out(0, narrows_ ? kNarrow : DType::kFloat32);
    if (x.count != count_) fail(Fault::kModel, "%s into %s", x.text().c_str(), y.text().c_str());
  }

  void run(const Buffers& b) const override {
    b.pool->parallel(count_, grain_of(kWorkOfTouching), [&](size_t begin, size_t end, int) {
      const size_t count = end - begin;
      if (narrows_) {
        kernel_.narrow(b.in(0) + begin, count, static_cast<Bf16*>(b.outputs[0]) + begin);
      } else {
        kernel_.widen(static_cast<const Bf16*>(b.inputs[0]) + begin, count, b.out() + begin);
      }
    });
  }

 private:
  CastBf16Kernel kernel_;
  bool narrows_;
  size_t count_;
};

}  // namespace

PALM_OPERANDS(cast, "x", "y")
StepPtr make_cast(const Node& node) {
  const DType from = node.any_in(0).dtype, to = node.any_out().dtype;
  if ((from == DType::kFloat32 && to == kNarrow) || (from == kNarrow && to == DType::kFloat32))
    return std::make_unique<CastBf16>(node);
  return std::make_unique<Cast>(node);
}

}  // namespace palm
