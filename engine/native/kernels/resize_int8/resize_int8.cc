// Channels-last pictures of bytes between their pixels, sums in integers. Inputs: x; int32[out, 2]
// with the two rows that each row of y is between, int32[out] with how much the second counts, in
// steps of 2^-11; the same of the columns.
#include "kernels/resize_int8/resize_int8.h"

#include "base/arena.h"
#include "kernels/byte_attrs.h"
#include "kernels/window.h"

namespace palm {
namespace {

constexpr Operands kOperands{"image rows row_weights columns column_weights", "y"};
constexpr size_t kImage = kOperands.input("image"), kRows = kOperands.input("rows"),
                 kRowWeights = kOperands.input("row_weights"),
                 kColumns = kOperands.input("columns"),
                 kColumnWeights = kOperands.input("column_weights");

class Resize : public Step {
 public:
  explicit Resize(const Node& node) : run_(find_resize_int8(node.isa)) {
    const Tensor &x = image(node.in(kImage, DType::kUint8)), &y = image(node.out(0, DType::kUint8));
    images_ = x.shape[0], height_ = x.shape[1], width_ = x.shape[2], channels_ = x.shape[3];
    out_height_ = y.shape[1], out_width_ = y.shape[2];
    if (y.shape[0] != images_ || y.shape[3] != channels_)
      fail(Fault::kModel, "%s into %s", x.text().c_str(), y.text().c_str());
    const auto rows = numbers(node, kRows, 2 * out_height_, height_);
    const auto columns = numbers(node, kColumns, 2 * out_width_, width_);
    for (size_t i = 0; i < out_height_; ++i) {
      upper_.push_back(static_cast<size_t>(rows[2 * i]));
      lower_.push_back(static_cast<size_t>(rows[2 * i + 1]));
    }
    for (size_t i = 0; i < out_width_; ++i) {
      from_.push_back(static_cast<size_t>(columns[2 * i]) * channels_);
      to_.push_back(static_cast<size_t>(columns[2 * i + 1]) * channels_);
    }
    zero_ = byte_attr(node, "x_zero", 0);
    factor_ = scale_attr(node, "scale") / static_cast<float>(1 << 22);
    to_byte_ = palm::to_byte(node);
    row_weights_ = numbers(node, kRowWeights, out_height_, (1 << 11) + 1);
    column_weights_ = numbers(node, kColumnWeights, out_width_, (1 << 11) + 1);
  }

  bool reads(size_t i) const override { return i == kImage; }

  size_t scratch_bytes(int threads) const override {
    return static_cast<size_t>(threads) * line_bytes();
  }

  void run(const Buffers& b) const override {
    const size_t in_row = width_ * channels_, out_row = out_width_ * channels_;
    b.pool->parallel(
        images_ * out_height_, grain_of(out_row * 4), [&](size_t begin, size_t end, int thread) {
          auto* const line =
              reinterpret_cast<int32_t*>(b.scratch + static_cast<size_t>(thread) * line_bytes());
          for (size_t row = begin; row < end; ++row) {
            const size_t oy = row % out_height_;
            const uint8_t* const x =
                static_cast<const uint8_t*>(b.inputs[kImage]) + row / out_height_ * height_ * in_row;
            run_({in_row, x + upper_[oy] * in_row, x + lower_[oy] * in_row, row_weights_[oy], line,
                  out_width_, channels_, from_.data(), to_.data(), column_weights_.data(),
                  static_cast<uint8_t*>(b.outputs[0]) + row * out_row, zero_, factor_, to_byte_});
          }
        });
  }

 private:
  size_t line_bytes() const { return round_up(width_ * channels_ * sizeof(int32_t)); }

  // A constant input, its numbers below `limit`.
  static std::vector<int32_t> numbers(const Node& node, size_t i, size_t count, size_t limit) {
    const Tensor& t = node.in(i, DType::kInt32);
    if (!t.constant || t.count != count)
      fail(Fault::kModel, "input %zu: expected %zu constants, got %s", i, count, t.text().c_str());
    const auto* const values = static_cast<const int32_t*>(t.constant);
    for (size_t k = 0; k < count; ++k)
      if (values[k] < 0 || static_cast<size_t>(values[k]) >= limit)
        fail(Fault::kModel, "input %zu: %d of %zu", i, values[k], limit);
    return {values, values + count};
  }

  ResizeInt8Fn run_;
  size_t images_, height_, width_, channels_, out_height_, out_width_;
  std::vector<size_t> upper_, lower_, from_, to_;
  std::vector<int32_t> row_weights_, column_weights_;
  int32_t zero_;
  float factor_;
  ToByte to_byte_;
};

}  // namespace

ResizeInt8Fn find_resize_int8(uint32_t isa) {
#define PALM_KERNEL(need, name) \
  if ((isa & (need)) == (need)) return &name;
#include "kernels/resize_int8/kernels.inc"
#undef PALM_KERNEL
  PALM_EVERY_SET_WAS_TRIED;
}

PALM_OPERANDS(resize_int8, kOperands)
StepPtr make_resize_int8(const Node& node) { return std::make_unique<Resize>(node); }

}  // namespace palm
