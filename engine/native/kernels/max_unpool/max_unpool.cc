// MediaPipe's MaxUnpooling2D: zeros, and each element of x in its window at the place that its
// index names, row * width of the window + column, cut off to a whole number. What lies outside is
// dropped; of several that meet the last one stays.
#include "kernels/max_unpool/max_unpool.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "kernels/window.h"

namespace palm {
namespace {

constexpr Operands kOperands{"image indices", "y"};
constexpr size_t kImage = kOperands.input("image"), kIndices = kOperands.input("indices");

UnpoolFn<float> find(uint32_t isa, float) { return find_unpool(isa); }
UnpoolFn<Bf16> find(uint32_t isa, Bf16) { return find_unpool_bf16(isa); }
float to_float(float value) { return value; }
float to_float(Bf16 value) { return widen(value); }

template <class T>
class MaxUnpool : public Step {
 public:
  explicit MaxUnpool(const Node& node) : unpool_(find(node.isa, T())) {
    const Tensor &x = image(node.in(kImage, kType)), &indices = node.in(kIndices, kType);
    const Tensor& y = image(node.out(0, kType));
    const Ints kernel = node.attrs.integers("kernel", Ints{1, 1});
    const Ints strides = node.attrs.integers("strides", Ints{1, 1});
    const Ints pads = node.attrs.integers("begins", Ints{0, 0});
    images_ = x.shape[0], height_ = x.shape[1], width_ = x.shape[2], channels_ = x.shape[3];
    out_height_ = y.shape[1], out_width_ = y.shape[2];
    kernel_width_ = static_cast<int64_t>(size_attr(kernel, 1, "kernel", 1));
    for (size_t i = 0; i < 2; ++i) {
      stride_[i] = static_cast<int64_t>(size_attr(strides, i, "strides", 1));
      begin_[i] = static_cast<int64_t>(size_attr(pads, i, "begins", 0));
    }
    if (indices.shape != x.shape || y.shape[0] != images_ || y.shape[3] != channels_) {
      fail(Fault::kModel, "%s at %s into %s", x.text().c_str(), indices.text().c_str(),
           y.text().c_str());
    }
    apart_ = begin_[0] == 0 && begin_[1] == 0 && kernel_width_ == stride_[1] &&
             out_height_ == height_ * static_cast<size_t>(stride_[0]) &&
             out_width_ == width_ * static_cast<size_t>(stride_[1]);
  }

  void run(const Buffers& b) const override {
    if (apart_ && run_apart(b)) return;
    const size_t in = height_ * width_ * channels_, out = out_height_ * out_width_ * channels_;
    b.pool->parallel(images_, grain_of(out * kWorkOfTouching), [&](size_t begin, size_t end, int) {
      for (size_t n = begin; n < end; ++n) {
        T* const y = out_data(b) + n * out;
        std::fill_n(y, out, T{});
        for (size_t i = 0; i < height_; ++i)
          for (size_t j = 0; j < width_; ++j) {
            const size_t at = n * in + (i * width_ + j) * channels_;
            place(i, j, in_data(b, kImage) + at, in_data(b, kIndices) + at, y);
          }
      }
    });
  }

 private:
  static constexpr DType kType = sizeof(T) == 4 ? DType::kFloat32 : kNarrow;

  static const T* in_data(const Buffers& b, size_t i) { return static_cast<const T*>(b.inputs[i]); }
  static T* out_data(const Buffers& b) { return static_cast<T*>(b.outputs[0]); }

  // Windows side by side that cover y: each row of y by itself. False if an index is outside of its
  // window.
  bool run_apart(const Buffers& b) const {
    const size_t rows = static_cast<size_t>(stride_[0]), columns = static_cast<size_t>(stride_[1]);
    const size_t in_row = width_ * channels_, out_row = out_width_ * channels_;
    std::atomic<bool> inside{true};
    b.pool->parallel(
        images_ * out_height_, grain_of(out_row * kWorkOfTouching, rows),
        [&](size_t begin, size_t end, int) {
          for (size_t row = begin; row < end; ++row) {
            const size_t from = row / rows * in_row, first = row % rows * columns;
            if (!unpool_({width_, columns, channels_, first, rows * columns, in_data(b, kImage) + from,
                          in_data(b, kIndices) + from, out_data(b) + row * out_row}))
              inside.store(false, std::memory_order_relaxed);
          }
        });
    return inside.load(std::memory_order_relaxed);
  }

  void place(size_t i, size_t j, const T* x, const T* indices, T* y) const {
    constexpr float kMost = 1e9f;
    const int64_t top = static_cast<int64_t>(i) * stride_[0] - begin_[0];
    const int64_t left = static_cast<int64_t>(j) * stride_[1] - begin_[1];
    for (size_t c = 0; c < channels_; ++c) {
      const float named = to_float(indices[c]);
      if (std::fabs(named) > kMost) continue;
      const int64_t index = named == named ? static_cast<int64_t>(named) : 0;
      const int64_t row = index / kernel_width_, down = top + row;
      const int64_t right = left + index - row * kernel_width_;
      if (down < 0 || right < 0 || down >= static_cast<int64_t>(out_height_) ||
          right >= static_cast<int64_t>(out_width_))
        continue;
      const size_t pixel = static_cast<size_t>(down) * out_width_ + static_cast<size_t>(right);
      y[pixel * channels_ + c] = x[c];
    }
  }

  UnpoolFn<T> unpool_;
  size_t images_, height_, width_, channels_, out_height_, out_width_;
  int64_t kernel_width_, stride_[2], begin_[2];
  bool apart_;
};

}  // namespace

UnpoolFn<float> find_unpool(uint32_t isa) {
#define PALM_KERNEL(need, name) \
  if ((isa & (need)) == (need)) return &name;
#include "kernels/max_unpool/kernels.inc"
#undef PALM_KERNEL
  PALM_EVERY_SET_WAS_TRIED;
}

UnpoolFn<Bf16> find_unpool_bf16(uint32_t isa) {
#define PALM_KERNEL(need, name) \
  if ((isa & (need)) == (need)) return &name;
#include "kernels/max_unpool/bf16_kernels.inc"
#undef PALM_KERNEL
  (void)isa;
  fail(Fault::kUnsupported, "this instruction set has no %s", name_of(kNarrow));
}

PALM_OPERANDS(max_unpool, kOperands)
StepPtr make_max_unpool(const Node& node) {
  if (node.any_in(kImage).dtype == kNarrow) return std::make_unique<MaxUnpool<Bf16>>(node);
  return std::make_unique<MaxUnpool<float>>(node);
}

}  // namespace palm
