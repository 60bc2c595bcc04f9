// Windows over channels-last pictures of bytes: mode "max", or "average" of x - x_zero by `scale`.
#include "kernels/pool_int8/pool_int8.h"

#include <algorithm>

#include "kernels/byte_attrs.h"
#include "kernels/window.h"

namespace palm {
namespace {

class PoolStep : public Step {
 public:
  explicit PoolStep(const Node& node)
      : window_(node, size_attr(node.attrs.integers("kernel", Ints{1, 1}), 0, "kernel", 1),
                size_attr(node.attrs.integers("kernel", Ints{1, 1}), 1, "kernel", 1)),
        pool_(find_pool_int8(node.isa)) {
    const Tensor &x = image(node.in(0, DType::kUint8)), &y = image(node.out(0, DType::kUint8));
    const std::string mode = node.attrs.text("mode");
    max_ = mode == "max";
    if (!max_ && mode != "average") fail(Fault::kModel, "attribute mode: %.40s", mode.c_str());
    if (!max_) {
      count_pad_ = node.attrs.integer("count_include_pad", 0) != 0;
      scale_ = scale_attr(node, "scale");
      zero_ = byte_attr(node, "x_zero", 0);
      to_ = to_byte(node);
    }
    images_ = x.shape[0], height_ = x.shape[1], width_ = x.shape[2], channels_ = x.shape[3];
    out_height_ = y.shape[1], out_width_ = y.shape[2];
    const auto fits = [](size_t out, size_t floor) { return out == floor || out == floor + 1; };
    if (y.shape[0] != images_ || y.shape[3] != channels_ ||
        !fits(out_height_, window_.rows(height_)) || !fits(out_width_, window_.columns(width_))) {
      fail(Fault::kModel, "%s into %s does not fit its attributes", x.text().c_str(),
           y.text().c_str());
    }
    window_.inside(width_, out_width_, inside_begin_, inside_end_);
    // 2^15 bytes add up to less than 2^23: exact in int32, and as a float.
    if (window_.taps() > size_t{1} << 15) fail(Fault::kUnsupported, "a window of 2^15 pixels");
  }

  size_t scratch_bytes(int threads) const override {
    return checked_product(window_.taps(), static_cast<size_t>(threads) * sizeof(void*));
  }

  void run(const Buffers& b) const override {
    const size_t work = out_width_ * (channels_ * window_.taps() + 64);
    b.pool->parallel(
        images_ * out_height_, grain_of(work), [&](size_t begin, size_t end, int thread) {
          const auto** const taps = reinterpret_cast<const uint8_t**>(b.scratch) +
                                    static_cast<size_t>(thread) * window_.taps();
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
  // `pixels` pixels of a row, all with the same taps.
  void pool(const Buffers& b, const uint8_t** taps, size_t row, size_t ox, size_t pixels) const {
    const Window& w = window_;
    const size_t oy = row % out_height_;
    const uint8_t* const x =
        static_cast<const uint8_t*>(b.inputs[0]) + row / out_height_ * height_ * width_ * channels_;
    uint8_t* const y = static_cast<uint8_t*>(b.outputs[0]) + (row * out_width_ + ox) * channels_;
    size_t count = 0, in_padding = 0;
    for (size_t ky = 0; ky < w.kernel_height; ++ky) {
      const size_t py = oy * w.stride_y + ky * w.dilation_y;
      for (size_t kx = 0; kx < w.kernel_width; ++kx) {
        const size_t px = ox * w.stride_x + kx * w.dilation_x;
        // Wraps round to a large number above and to the left of the image.
        const size_t iy = py - w.top, ix = px - w.left;
        if (iy < height_ && ix < width_) taps[count++] = x + (iy * width_ + ix) * channels_;
        in_padding += py < height_ + w.top + w.bottom && px < width_ + w.left + w.right;
      }
    }
    if (count == 0) {
      const uint8_t nothing = max_ ? uint8_t{0} : byte_of(0.f, to_);
      std::fill_n(y, pixels * channels_, nothing);
      return;
    }
    const float factor = scale_ / static_cast<float>(count_pad_ ? in_padding : count);
    pool_({max_, count, pixels, channels_, taps, w.stride_x * channels_, zero_, factor, to_, y});
  }

  Window window_;
  PoolInt8Fn pool_;
  bool max_, count_pad_ = false;
  float scale_ = 0;
  int32_t zero_ = 0;
  ToByte to_{};
  size_t images_, height_, width_, channels_, out_height_, out_width_;
  size_t inside_begin_, inside_end_;
};

}  // namespace

PoolInt8Fn find_pool_int8(uint32_t isa) {
#define PALM_KERNEL(need, name) \
  if ((isa & (need)) == (need)) return &name;
#include "kernels/pool_int8/kernels.inc"
#undef PALM_KERNEL
}

StepPtr make_pool_int8(const Node& node) { return std::make_unique<PoolStep>(node); }

}  // namespace palm
