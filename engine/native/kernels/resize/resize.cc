#include "kernels/resize/resize.h"

#include <cstring>

#include "base/arena.h"
#include "kernels/binary/binary.h"
#include "kernels/window.h"

namespace palm {
namespace {

constexpr Operands kOperands{
    "image rows next_rows row_weights columns next_columns column_weights addend", "y"};
constexpr size_t kImage = kOperands.input("image"), kRows = kOperands.input("rows"),
                 kNextRows = kOperands.input("next_rows"),
                 kRowWeights = kOperands.input("row_weights"),
                 kColumns = kOperands.input("columns"),
                 kNextColumns = kOperands.input("next_columns"),
                 kColumnWeights = kOperands.input("column_weights"),
                 kAddend = kOperands.input("addend");

// The tables say where each row and column of y comes from, so any rule of coordinates is exact.
// The addend, if any, is added to what they give, and the sum clamped.
class Resize : public Step {
 public:
  explicit Resize(const Node& node)
      : blend_(find_resize(node.isa)), sum_(find_binary(node.isa)), clip_(node.attrs) {
    const Tensor &x = image(node.in(kImage)), &y = image(node.out());
    images_ = x.shape[0], height_ = x.shape[1], width_ = x.shape[2], channels_ = x.shape[3];
    out_height_ = y.shape[1], out_width_ = y.shape[2];
    if (y.shape[0] != images_ || y.shape[3] != channels_)
      fail(Fault::kModel, "%s into %s", x.text().c_str(), y.text().c_str());
    const std::string mode = node.attrs.text("mode");
    if (mode == "nearest") {
      y0_ = indices(node, kRows, out_height_, height_);
      x0_ = indices(node, kColumns, out_width_, width_);
    } else if (mode == "linear") {
      y0_ = indices(node, kRows, out_height_, height_);
      y1_ = indices(node, kNextRows, out_height_, height_);
      fy_ = weights(node, kRowWeights, out_height_);
      x0_ = indices(node, kColumns, out_width_, width_);
      x1_ = indices(node, kNextColumns, out_width_, width_);
      fx_ = weights(node, kColumnWeights, out_width_);
    } else {
      fail(Fault::kModel, "attribute mode: %.40s", mode.c_str());
    }
    adds_ = node.input(kAddend) != nullptr;
    if (adds_ && node.in(kAddend).shape != y.shape)
      fail(Fault::kModel, "%s added to %s", node.in(kAddend).text().c_str(), y.text().c_str());
    for (size_t& column : x0_) column *= channels_;
    for (size_t& column : x1_) column *= channels_;
  }

  size_t scratch_bytes(int threads) const override {
    return static_cast<size_t>(threads) * (line_bytes() + sum_bytes());
  }

  bool in_place(size_t i) const override { return adds_ && i == kAddend; }

  void run(const Buffers& b) const override {
    const size_t in_row = width_ * channels_, out_row = out_width_ * channels_;
    const Grain grain = grain_of(out_row * kWorkOfTouching);
    b.pool->parallel(images_ * out_height_, grain, [&](size_t begin, size_t end, int thread) {
      char* const scratch =
          b.scratch + static_cast<size_t>(thread) * (line_bytes() + sum_bytes());
      float* const line = reinterpret_cast<float*>(scratch);
      for (size_t row = begin; row < end; ++row) {
        const size_t oy = row % out_height_;
        const float* const x = b.in(kImage) + row / out_height_ * height_ * in_row;
        const float* upper = x + y0_[oy] * in_row;
        float* const sum = b.out() + row * out_row;
        float* const y = adds_ ? reinterpret_cast<float*>(scratch + line_bytes()) : sum;
        if (fy_.empty()) {
          for (size_t ox = 0; ox < out_width_; ++ox)
            std::memcpy(y + ox * channels_, upper + x0_[ox], channels_ * sizeof(float));
        } else {
          if (fy_[oy] != 0.f) {
            const size_t lower_row = y1_[oy] * in_row, upper_row = y0_[oy] * in_row;
            blend_({1, in_row, x, x, &upper_row, &lower_row, &fy_[oy], line});
            upper = line;
          }
          blend_({out_width_, channels_, upper, upper, x0_.data(), x1_.data(), fx_.data(), y});
        }
        if (adds_) {
          sum_({BinaryOp::kAdd, 1, out_row, y, 0, 1, b.in(kAddend) + row * out_row, 0, 1, sum,
                clip_.low, clip_.high});
        }
      }
    });
  }

 private:
  size_t line_bytes() const {
    return fy_.empty() ? 0 : round_up(width_ * channels_ * sizeof(float));
  }

  size_t sum_bytes() const {
    return adds_ ? round_up(out_width_ * channels_ * sizeof(float)) : 0;
  }

  static std::vector<size_t> indices(const Node& node, size_t i, size_t count, size_t limit) {
    const Tensor& t = node.in(i, DType::kInt32);
    if (!t.constant || t.count != count)
      fail(Fault::kModel, "input %zu: expected %zu constants, got %s", i, count, t.text().c_str());
    std::vector<size_t> values;
    for (size_t k = 0; k < count; ++k) {
      const int32_t index = static_cast<const int32_t*>(t.constant)[k];
      if (index < 0 || static_cast<size_t>(index) >= limit)
        fail(Fault::kModel, "input %zu: index %d of %zu", i, index, limit);
      values.push_back(static_cast<size_t>(index));
    }
    return values;
  }

  static std::vector<float> weights(const Node& node, size_t i, size_t count) {
    node.in(i);
    const float* const values = node.constant(i, count);
    return std::vector<float>(values, values + count);
  }

  ResizeFn blend_;
  BinaryFn sum_;
  Clip clip_;
  bool adds_ = false;
  size_t images_, height_, width_, channels_, out_height_, out_width_;
  std::vector<size_t> y0_, y1_;  // rows
  std::vector<size_t> x0_, x1_;  // where the columns begin in a row
  std::vector<float> fy_, fx_;
};

}  // namespace

ResizeFn find_resize(uint32_t isa) {
#define PALM_KERNEL(need, name) \
  if ((isa & (need)) == (need)) return &name;
#include "kernels/resize/kernels.inc"
#undef PALM_KERNEL
  PALM_EVERY_SET_WAS_TRIED;
}

PALM_OPERANDS(resize, kOperands)
StepPtr make_resize(const Node& node) { return std::make_unique<Resize>(node); }

}  // namespace palm
