// The greatest of each window, and where it lies if the images are seen as [n, c, h, w], counted
// flat; the first of several, and the first NaN of all. With `in_window` as MediaPipe has it: the
// place is a float, row * width of the window + column + 0.1, and no NaN, nor anything below the
// lowest finite number, is the greatest.
#include "kernels/max_pool_indices/max_pool_indices.h"

#include <algorithm>
#include <cmath>

#include "base/arena.h"
#include "kernels/window.h"

namespace palm {
namespace {

constexpr Operands kOperands{"image", "y indices"};
constexpr size_t kIndices = kOperands.output("indices");

MaxPlacesFn<float> find(uint32_t isa, float) { return find_max_places(isa); }
MaxPlacesFn<Bf16> find(uint32_t isa, Bf16) { return find_max_places_bf16(isa); }

// Of bfloat16 only what is kept in the window, of so few taps that a place rounds to its own.
template <class T>
class MaxPoolIndices : public Step {
 public:
  explicit MaxPoolIndices(const Node& node)
      : window_(node, size_attr(node.attrs.integers("kernel", Ints{1, 1}), 0, "kernel", 1),
                size_attr(node.attrs.integers("kernel", Ints{1, 1}), 1, "kernel", 1)),
        max_places_(find(node.isa, T())) {
    const Tensor &x = image(node.in(0, kType)), &y = image(node.out(0, kType));
    in_window_ = node.attrs.integer("in_window", 0) != 0;
    const Tensor& indices = node.out(kIndices, in_window_ ? kType : DType::kInt64);
    if (kType == kNarrow && (!in_window_ || window_.taps() > kMostNarrow))
      fail(Fault::kUnsupported, "places of %s", x.text().c_str());
    images_ = x.shape[0], height_ = x.shape[1], width_ = x.shape[2], channels_ = x.shape[3];
    out_height_ = y.shape[1], out_width_ = y.shape[2];
    const auto fits = [](size_t out, size_t floor) { return out == floor || out == floor + 1; };
    if (y.shape[0] != images_ || y.shape[3] != channels_ || indices.shape != y.shape ||
        !fits(out_height_, window_.rows(height_)) || !fits(out_width_, window_.columns(width_))) {
      fail(Fault::kModel, "%s into %s does not fit its attributes", x.text().c_str(),
           y.text().c_str());
    }
    window_.inside(width_, out_width_, inside_begin_, inside_end_);
  }

  // For each tap a pointer and a place.
  size_t scratch_bytes(int threads) const override {
    return checked_product(static_cast<size_t>(threads), thread_bytes());
  }

  void run(const Buffers& b) const override {
    const size_t work = out_width_ * channels_ * window_.taps() * kWorkOfTouching;
    b.pool->parallel(
        images_ * out_height_, grain_of(work), [&](size_t begin, size_t end, int thread) {
          char* const scratch = b.scratch + static_cast<size_t>(thread) * thread_bytes();
          for (size_t row = begin; row < end; ++row) {
            for (size_t ox = 0; ox < out_width_;) {
              const bool many = in_window_ && ox == inside_begin_;
              const size_t pixels = std::max<size_t>(1, many ? inside_end_ - ox : 0);
              if (in_window_) pixels_in_window(b, row, ox, pixels, scratch);
              else if constexpr (kType == DType::kFloat32) pixel(b, row, ox);
              ox += pixels;
            }
          }
        });
  }

 private:
  static constexpr DType kType = sizeof(T) == 4 ? DType::kFloat32 : kNarrow;
  static constexpr size_t kMostNarrow = 128;

  size_t most_taps() const { return window_.most_taps(height_, width_); }
  size_t thread_bytes() const {
    return round_up(checked_product(most_taps(), sizeof(float*) + sizeof(float)));
  }

  // `pixels` pixels of a row, all with the same taps.
  void pixels_in_window(const Buffers& b, size_t row, size_t ox, size_t pixels,
                        char* scratch) const {
    const T** const taps = reinterpret_cast<const T**>(scratch);
    float* const places = reinterpret_cast<float*>(taps + most_taps());
    size_t count = 0;
    each_tap(b, row, ox, [&](const T* x, size_t tap, size_t) {
      taps[count] = x;
      places[count++] = static_cast<float>(tap) + kPlace;
    });
    const size_t at = (row * out_width_ + ox) * channels_;
    max_places_({count, pixels, channels_, taps, window_.stride_x * channels_, places, kPlace,
                 static_cast<T*>(b.outputs[0]) + at, static_cast<T*>(b.outputs[kIndices]) + at});
  }

  void pixel(const Buffers& b, size_t row, size_t ox) const {
    const size_t at = (row * out_width_ + ox) * channels_;
    float* const y = b.out() + at;
    int64_t* const places = static_cast<int64_t*>(b.outputs[kIndices]) + at;
    for (size_t c = 0; c < channels_; ++c) y[c] = -INFINITY, places[c] = -1;
    const size_t plane = height_ * width_, first = row / out_height_ * channels_;
    each_tap(b, row, ox, [&](const float* x, size_t, size_t pixel) {
      for (size_t c = 0; c < channels_; ++c) {
        if (places[c] >= 0 && !(x[c] > y[c]) && !(x[c] != x[c] && y[c] == y[c])) continue;
        y[c] = x[c];
        places[c] = static_cast<int64_t>((first + c) * plane + pixel);
      }
    });
  }

  // Calls f(channels, tap, pixel) for what of the window lies in the image.
  template <class Function>
  void each_tap(const Buffers& b, size_t row, size_t ox, Function f) const {
    const Window& w = window_;
    const size_t n = row / out_height_, oy = row % out_height_;
    const T* const x = static_cast<const T*>(b.inputs[0]) + n * height_ * width_ * channels_;
    const Taps down = w.down(oy, height_), along = w.along(ox, width_);
    for (size_t ky = 0; ky < down.count(); ++ky) {
      const size_t line = (down.first + ky * w.dilation_y) * width_;
      const size_t tap = (down.begin + ky) * w.kernel_width + along.begin;
      for (size_t kx = 0; kx < along.count(); ++kx) {
        const size_t pixel = line + along.first + kx * w.dilation_x;
        f(x + pixel * channels_, tap + kx, pixel);
      }
    }
  }

  static constexpr float kPlace = 0.1f;

  Window window_;
  MaxPlacesFn<T> max_places_;
  bool in_window_;
  size_t images_, height_, width_, channels_, out_height_, out_width_;
  size_t inside_begin_, inside_end_;
};

}  // namespace

MaxPlacesFn<float> find_max_places(uint32_t isa) {
#define PALM_KERNEL(need, name) \
  if ((isa & (need)) == (need)) return &name;
#include "kernels/max_pool_indices/kernels.inc"
#undef PALM_KERNEL
  PALM_EVERY_SET_WAS_TRIED;
}

MaxPlacesFn<Bf16> find_max_places_bf16(uint32_t isa) {
#define PALM_KERNEL(need, name) \
  if ((isa & (need)) == (need)) return &name;
#include "kernels/max_pool_indices/bf16_kernels.inc"
#undef PALM_KERNEL
  (void)isa;
  fail(Fault::kUnsupported, "this instruction set has no %s", name_of(kNarrow));
}

PALM_OPERANDS(max_pool_indices, kOperands)
StepPtr make_max_pool_indices(const Node& node) {
  if (node.any_in(0).dtype == kNarrow) return std::make_unique<MaxPoolIndices<Bf16>>(node);
  return std::make_unique<MaxPoolIndices<float>>(node);
}

}  // namespace palm
