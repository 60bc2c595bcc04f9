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

  void run(const Buffers& b) const override {
    // Threads share the rows, or the channels of a single one.
    const size_t rows = images_ * out_height_, work = out_width_ * (window_.taps() + 1);
    if (rows == 1) {
      b.pool->parallel(channels_, grain_of(work, 64),
                       [&](size_t begin, size_t end, int) { pool_row(b, 0, begin, end); });
      return;
    }
    b.pool->parallel(rows, grain_of(work * channels_), [&](size_t begin, size_t end, int) {
      for (size_t row = begin; row < end; ++row) pool_row(b, row, 0, channels_);
    });
  }

 private:
  // Channels [begin, end) of a row.
  void pool_row(const Buffers& b, size_t row, size_t begin, size_t end) const {
    for (size_t ox = 0; ox < out_width_;) {
      const size_t pixels = std::max<size_t>(1, ox == inside_begin_ ? inside_end_ - ox : 0);
      pool(b, row, ox, pixels, begin, end);
      ox += pixels;
    }
  }

  // `pixels` pixels of a row, all with the same taps.
  void pool(const Buffers& b, size_t row, size_t ox, size_t pixels, size_t begin,
            size_t end) const {
    const Window& w = window_;
    const size_t oy = row % out_height_;
    const Taps down = w.down(oy, height_), along = w.along(ox, width_);
    uint8_t* const y =
        static_cast<uint8_t*>(b.outputs[0]) + (row * out_width_ + ox) * channels_ + begin;
    const size_t count = down.count() * along.count();
    if (count == 0) {
      const uint8_t nothing = max_ ? uint8_t{0} : byte_of(0.f, to_);
      for (size_t i = 0; i < pixels; ++i) std::fill_n(y + i * channels_, end - begin, nothing);
      return;
    }
    const size_t pixel = (row / out_height_ * height_ + down.first) * width_ + along.first;
    const size_t of = count_pad_ ? w.padded_taps(oy, ox, height_, width_) : count;
    const float factor = scale_ / static_cast<float>(of);
    pool_({max_, down.count(), along.count(), pixels, end - begin,
           static_cast<const uint8_t*>(b.inputs[0]) + pixel * channels_ + begin,
           w.dilation_y * width_ * channels_, w.dilation_x * channels_, w.stride_x * channels_,
           channels_, zero_, factor, to_, y});
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
  PALM_EVERY_SET_WAS_TRIED;
}

PALM_OPERANDS(pool_int8, "image", "y")
StepPtr make_pool_int8(const Node& node) { return std::make_unique<PoolStep>(node); }

}  // namespace palm
