// Between float32 and integers of 8, 16 or 32 bits: op "quantize", "dequantize", or "round_trip",
// the one and then the other without the integers in between. x is [outer, axis, inner]; scale and
// zero point, constants, have one value or one for each element of the axis.
#include "kernels/quantize/quantize.h"

#include <cmath>
#include <cstring>

#include "kernels/axis.h"

namespace palm {
namespace {

constexpr Operands kOperands{"x scale zero_point", "y"};
constexpr size_t kX = kOperands.input("x"), kScale = kOperands.input("scale"),
                 kZeroPoint = kOperands.input("zero_point");

struct Range {
  float low, high;
};

Range range_of(DType dtype) {
  switch (dtype) {
    case DType::kInt8: return {-128.f, 127.f};
    case DType::kUint8: return {0.f, 255.f};
    case DType::kInt16: return {-32768.f, 32767.f};
    case DType::kUint16: return {0.f, 65535.f};
    default: fail(Fault::kUnsupported, "quantized to %s", name_of(dtype));
  }
}

template <class T>
int32_t read(const void* data, size_t i) {
  return static_cast<int32_t>(static_cast<const T*>(data)[i]);
}

using Read = int32_t (*)(const void* data, size_t i);

Read find_read(DType dtype) {
  switch (dtype) {
    case DType::kInt8: return &read<int8_t>;
    case DType::kUint8: return &read<uint8_t>;
    case DType::kInt16: return &read<int16_t>;
    case DType::kUint16: return &read<uint16_t>;
    case DType::kInt32: return &read<int32_t>;
    default: fail(Fault::kUnsupported, "quantized as %s", name_of(dtype));
  }
}

template <class T>
void quantize(size_t n, const float* x, float scale, float zero, Range range, void* y) {
  T* const to = static_cast<T*>(y);
  for (size_t i = 0; i < n; ++i) {
    const float q = std::nearbyint(x[i] / scale) + zero;
    const float raised = q > range.low ? q : range.low;
    to[i] = static_cast<T>(raised < range.high ? raised : range.high);
  }
}

template <class T>
void dequantize(size_t n, const void* x, float scale, int32_t zero, float* y) {
  const T* const from = static_cast<const T*>(x);
  for (size_t i = 0; i < n; ++i)
    y[i] = static_cast<float>(static_cast<int64_t>(from[i]) - zero) * scale;
}

class Quantize : public Step {
 public:
  explicit Quantize(const Node& node)
      : axis_(node),
        round_trip_(find_quantize(node.isa)),
        to_bytes_(find_to_bytes(node.isa)),
        from_bytes_(find_from_bytes(node.isa)) {
    const std::string op = node.attrs.text("op");
    const Tensor &x = axis_.check(node.any_in(kX), axis_.size),
                 &y = axis_.check(node.any_out(), axis_.size);
    forward_ = op != "dequantize";
    back_ = op != "quantize";
    if (op == "round_trip") narrow_ = dtype_by_name(node.attrs.text("dtype"));
    else if (op == "quantize") narrow_ = y.dtype;
    else if (op == "dequantize") narrow_ = x.dtype;
    else fail(Fault::kModel, "attribute op: %.40s", op.c_str());
    if (forward_) node.in(kX);
    if (back_) node.out(0);
    if (forward_) range_ = range_of(narrow_);
    const float* const scale = node.constant(kScale, node.in(kScale).count);
    scales_.assign(scale, scale + node.in(kScale).count);
    const Read read = find_read(narrow_);
    zeros_.assign(scales_.size(), 0);
    if (const Tensor* zero = node.input(kZeroPoint)) {
      if (zero->dtype != narrow_ || zero->count != scales_.size() || !zero->constant)
        fail(Fault::kUnsupported, "zero point %s", zero->text().c_str());
      for (size_t i = 0; i < zeros_.size(); ++i) zeros_[i] = read(zero->constant, i);
    }
    if (scales_.size() != 1 && scales_.size() != axis_.size)
      fail(Fault::kModel, "%zu scales for an axis of %zu", scales_.size(), axis_.size);
    // One scale for all, or one for each run of the innermost elements.
    if (scales_.size() == 1) {
      run_ = axis_.outer * axis_.size * axis_.inner;
    } else {
      run_ = axis_.inner;
    }
    count_ = x.count;
  }

  bool reads(size_t i) const override { return i == kX; }

  void run(const Buffers& b) const override {
    b.pool->parallel(count_, grain_of(kWorkOfTouching, 64), [&](size_t begin, size_t end, int) {
      while (begin < end) {
        const size_t index = begin / run_, left = run_ - begin % run_;
        const size_t n = end - begin < left ? end - begin : left;
        piece(b, index % scales_.size(), begin, n);
        begin += n;
      }
    });
  }

 private:
  void piece(const Buffers& b, size_t which, size_t begin, size_t n) const {
    const float scale = scales_[which];
    const int32_t zero = zeros_[which];
    const float z = static_cast<float>(zero);
    const size_t size = size_of(narrow_);
    if (forward_ && back_) {
      round_trip_(n, b.in(kX) + begin, scale, z, range_.low, range_.high, b.out() + begin);
    } else if (forward_) {
      const float* const x = b.in(kX) + begin;
      void* const y = static_cast<char*>(b.outputs[0]) + begin * size;
      if (narrow_ == DType::kInt8) quantize<int8_t>(n, x, scale, z, range_, y);
      else if (narrow_ == DType::kUint8) to_bytes_(n, x, scale, zero, static_cast<uint8_t*>(y));
      else if (narrow_ == DType::kInt16) quantize<int16_t>(n, x, scale, z, range_, y);
      else quantize<uint16_t>(n, x, scale, z, range_, y);
    } else {
      const void* const x = static_cast<const char*>(b.inputs[kX]) + begin * size;
      float* const y = b.out() + begin;
      if (narrow_ == DType::kInt8) dequantize<int8_t>(n, x, scale, zero, y);
      else if (narrow_ == DType::kUint8)
        from_bytes_(n, static_cast<const uint8_t*>(x), scale, zero, y);
      else if (narrow_ == DType::kInt16) dequantize<int16_t>(n, x, scale, zero, y);
      else if (narrow_ == DType::kUint16) dequantize<uint16_t>(n, x, scale, zero, y);
      else dequantize<int32_t>(n, x, scale, zero, y);
    }
  }

  Axis axis_;
  QuantizeFn round_trip_;
  ToBytesFn to_bytes_;
  FromBytesFn from_bytes_;
  DType narrow_;
  bool forward_, back_;
  Range range_{};
  std::vector<float> scales_;
  std::vector<int32_t> zeros_;
  size_t run_, count_;
};

}  // namespace

QuantizeFn find_quantize(uint32_t isa) {
#define PALM_KERNEL(need, name) \
  if ((isa & (need)) == (need)) return &name;
#include "kernels/quantize/kernels.inc"
#undef PALM_KERNEL
  PALM_EVERY_SET_WAS_TRIED;
}

ToBytesFn find_to_bytes(uint32_t isa) {
#define PALM_KERNEL(need, name) \
  if ((isa & (need)) == (need)) return &name;
#include "kernels/quantize/to_bytes.inc"
#undef PALM_KERNEL
  PALM_EVERY_SET_WAS_TRIED;
}

FromBytesFn find_from_bytes(uint32_t isa) {
#define PALM_KERNEL(need, name) \
  if ((isa & (need)) == (need)) return &name;
#include "kernels/quantize/from_bytes.inc"
#undef PALM_KERNEL
  PALM_EVERY_SET_WAS_TRIED;
}

PALM_OPERANDS(quantize, kOperands)
StepPtr make_quantize(const Node& node) { return std::make_unique<Quantize>(node); }

}  // namespace palm
