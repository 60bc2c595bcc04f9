#include "kernels/pool/pool.h"

#include <algorithm>
#include <cmath>

#include "kernels/window.h"

namespace palm {
namespace {

float from_float(float value, float) { return value; }
Bf16 from_float(float value, Bf16) { return narrow(value); }
PoolOf<float> find(uint32_t isa, float) { return find_pool(isa); }
PoolOf<Bf16> find(uint32_t isa, Bf16) { return find_pool_bf16(isa); }

template <class T>
class PoolStep : public Step {
 public:
  explicit PoolStep(const Node& node)
      : window_(node, size_attr(node.attrs.integers("kernel", Ints{1, 1}), 0, "kernel", 1),
                size_attr(node.attrs.integers("kernel", Ints{1, 1}), 1, "kernel", 1)),
        pool_(find(node.isa, T())) {
    const Tensor &x = image(node.in(0, kType)), &y = image(node.out(0, kType));
    const std::string mode = node.attrs.text("mode");
    max_ = mode == "max";
    if (!max_ && mode != "average") fail(Fault::kModel, "attribute mode: %.40s", mode.c_str());
    count_pad_ = node.attrs.integer("count_include_pad", 0) != 0;
    images_ = x.shape[0], height_ = x.shape[1], width_ = x.shape[2], channels_ = x.shape[3];
    out_height_ = y.shape[1], out_width_ = y.shape[2];
    // With ceil_mode there may be one window more, that begins inside of the image or its padding.
    const auto fits = [](size_t out, size_t floor) { return out == floor || out == floor + 1; };
    if (y.shape[0] != images_ || y.shape[3] != channels_ ||
        !fits(out_height_, window_.rows(height_)) || !fits(out_width_, window_.columns(width_))) {
      fail(Fault::kModel, "%s into %s does not fit its attributes", x.text().c_str(),
           y.text().c_str());
    }
    window_.inside(width_, out_width_, inside_begin_, inside_end_);
  }

  size_t scratch_bytes(int threads) const override {
    return checked_product(most_taps(), static_cast<size_t>(threads) * sizeof(void*));
  }

  void run(const Buffers& b) const override {
    const size_t work = out_width_ * channels_ * window_.taps() * kWorkOfTouching;
    b.pool->parallel(
        images_ * out_height_, grain_of(work), [&](size_t begin, size_t end, int thread) {
          const T** const taps =
              reinterpret_cast<const T**>(b.scratch) + static_cast<size_t>(thread) * most_taps();
          for (size_t row = begin; row < end; ++row) {
            for (size_t ox = 0; ox < out_width_;) {
              const size_t pixels = std::max<size_t>(1, ox == inside_begin_ ? inside_end_ - ox : 0);
              pool(b, taps, row, ox, pixels);
              ox += pixels;
            }
          }
        });
  }

 private:
  static constexpr DType kType = sizeof(T) == 4 ? DType::kFloat32 : kNarrow;

  size_t most_taps() const { return window_.most_taps(height_, width_); }

  // `pixels` pixels of a row, all with the same taps.
  void pool(const Buffers& b, const T** taps, size_t row, size_t ox, size_t pixels) const {
    const Window& w = window_;
    const T* const x =
        static_cast<const T*>(b.inputs[0]) + row / out_height_ * height_ * width_ * channels_;
    T* const y = static_cast<T*>(b.outputs[0]) + (row * out_width_ + ox) * channels_;
    const size_t oy = row % out_height_;
    const Taps down = w.down(oy, height_), along = w.along(ox, width_);
    size_t count = 0;
    for (size_t ky = 0; ky < down.count(); ++ky) {
      const T* const line = x + (down.first + ky * w.dilation_y) * width_ * channels_;
      for (size_t kx = 0; kx < along.count(); ++kx)
        taps[count++] = line + (along.first + kx * w.dilation_x) * channels_;
    }
    if (count == 0) {
      const float nothing = max_ ? -INFINITY : count_pad_ ? 0.f : NAN;
      std::fill_n(y, pixels * channels_, from_float(nothing, T()));
      return;
    }
    const size_t of = count_pad_ ? w.padded_taps(oy, ox, height_, width_) : count;
    const float scale = 1.f / static_cast<float>(of);
    pool_(max_, count, pixels, channels_, taps, w.stride_x * channels_, scale, y);
  }

  Window window_;
  PoolOf<T> pool_;
  bool max_, count_pad_;
  size_t images_, height_, width_, channels_, out_height_, out_width_;
  size_t inside_begin_, inside_end_;
};

}  // namespace

PoolFn find_pool(uint32_t isa) {
#define PALM_KERNEL(need, name) \
  if ((isa & (need)) == (need)) return &name;
#include "kernels/pool/kernels.inc"
#undef PALM_KERNEL
  PALM_EVERY_SET_WAS_TRIED;
}

PoolOf<Bf16> find_pool_bf16(uint32_t isa) {
#define PALM_KERNEL(need, name) \
  if ((isa & (need)) == (need)) return &name;
#include "kernels/pool/bf16_kernels.inc"
#undef PALM_KERNEL
  (void)isa;
  fail(Fault::kUnsupported, "this instruction set has no %s", name_of(kNarrow));
}

PALM_OPERANDS(pool, "image", "y")
StepPtr make_pool(const Node& node) {
  if (node.any_in(0).dtype == kNarrow) return std::make_unique<PoolStep<Bf16>>(node);
  return std::make_unique<PoolStep<float>>(node);
}

}  // namespace palm
