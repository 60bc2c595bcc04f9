#include <algorithm>
#include <cstring>

#include "kernels/conv/bf16_conv.h"
#include "kernels/conv/float_conv.h"

namespace palm {
namespace {

// The kernel_width * channels numbers under one row of the kernel lie side by side, so a row of y
// is a GEMM of kernel_height segments that reads rows of x. Where these need padding at their ends,
// or are no such numbers yet, such rows are kept, as many as the kernel is high, while y goes down.
// Where a segment would be odd, a zero is kept after each pixel's channels.
// Base: FloatConv or Bf16Conv.
template <class Base>
class RowConv : public Base {
  using Number = typename Base::Number;

 public:
  RowConv(const Node& node, const ConvShape& shape)
      : Base(node, shape), kernel_(Base::find(node.isa)) {
    is_wider_ = shape.kernel_width * shape.channels % Base::kTogether != 0;
    channels_ = shape.channels + is_wider_;
    if (this->packs()) pack(node);
    panels_ = kernel_.count_panels(shape.out_channels);
    const size_t reach = (shape.out_width - 1) * shape.stride_x + shape.kernel_width;
    const bool is_dense = shape.x_pixel == shape.channels;
    if (shape.left || reach > shape.width || is_wider_ || !is_dense || !this->is_number())
      kept_rows_ = (shape.kernel_height - 1) * shape.dilation_y + 1;
    line_ = round_up(checked_product(reach, channels_) * sizeof(Number)) / sizeof(Number);
  }

  size_t scratch_bytes(int threads) const override {
    return checked_product(static_cast<size_t>(threads), thread_bytes());
  }

  Bytes weights_read() const override { return weights_.bytes(); }

  void run(const Buffers& b) const override {
    const size_t parts = count_parts(b.pool->threads());
    const size_t work = shape_.out_width * shape_.out_channels * shape_.taps() * shape_.channels;
    b.pool->parallel(shape_.images * shape_.out_height * parts, grain_of(work / parts),
                     [&](size_t begin, size_t end, int thread) {
                       rows(b, parts, begin, end,
                            b.scratch + static_cast<size_t>(thread) * thread_bytes());
                     });
  }

 private:
  void pack(const Node& node) {
    const size_t depth = shape_.taps() * channels_, columns = shape_.out_channels;
    std::vector<float> room;
    const float* w = this->weights(node, channels_, depth, &room);
    weights_ = Arena(kernel_.pack(depth, columns, nullptr, 1, depth, nullptr) * sizeof(Number));
    kernel_.pack(depth, columns, w, 1, depth, packed());
  }

  Number* packed() const { return reinterpret_cast<Number*>(weights_.data()); }

  // The kept lines, one of zeros, one as it lies in x where pixels are kept wider, and a pointer
  // for each row of the kernel.
  size_t lines() const { return kept_rows_ + 1 + is_wider_; }
  size_t thread_bytes() const {
    return checked_product(lines(), line_ * sizeof(Number)) +
           round_up(shape_.kernel_height * sizeof(Number*));
  }

  // Parts of a row for threads to share, as many for each, where rows are few: a signal has one.
  size_t count_parts(int threads) const {
    constexpr size_t kManyRows = 4, kLeastPixels = 16;
    const size_t rows = shape_.images * shape_.out_height, each = static_cast<size_t>(threads);
    if (each == 1 || rows == 0 || rows >= kManyRows * each) return 1;
    const size_t most = std::min(shape_.out_width / kLeastPixels, kManyRows * each / rows);
    return most > each ? most / each * each : std::max<size_t>(1, most);
  }

  // Parts [begin, end) of all rows, each row being so many.
  void rows(const Buffers& b, size_t parts, size_t begin, size_t end, char* scratch) const {
    const ConvShape& s = shape_;
    Number* const lines = reinterpret_cast<Number*>(scratch);
    const Number* const zeros = lines + kept_rows_ * line_;
    Number* const spare = lines + (kept_rows_ + 1) * line_;
    const Number** const segments = reinterpret_cast<const Number**>(lines + this->lines() * line_);
    const auto e = this->epilogue(b);
    const size_t tile = kernel_.first_panel(s.out_channels).tile_rows;
    const auto start = [&](size_t part) {
      return part == parts ? s.out_width : s.out_width * part / parts / tile * tile;
    };
    // Pixels that are read of a line: parts of one row read only their own.
    const bool is_one = begin / parts == (end - 1) / parts;
    const size_t reach = (s.out_width - 1) * s.stride_x + s.kernel_width;
    const size_t low = is_one ? start(begin % parts) * s.stride_x : 0;
    const size_t high =
        is_one ? (start((end - 1) % parts + 1) - 1) * s.stride_x + s.kernel_width : reach;
    for (size_t i = 0; i <= kept_rows_; ++i) {
      std::memset(static_cast<void*>(lines + i * line_ + low * channels_), 0,
                  (high - low) * channels_ * sizeof(Number));
    }
    const size_t row_numbers = s.width * s.x_pixel;
    const size_t loads = std::max(low, s.left), loads_end = std::min(high, s.left + s.width);
    const size_t pixels = loads_end > loads ? loads_end - loads : 0;
    bool is_first = true;
    size_t loaded = 0;  // padded rows before this one are in `lines`, or no more needed
    while (begin < end) {
      const size_t row = begin / parts, part = begin % parts;
      const size_t last = std::min(parts, part + end - begin);
      const size_t column = start(part), columns = start(last) - column;
      const size_t first = row % s.out_height * s.stride_y;
      const auto image = this->x(b) + row / s.out_height * s.height * row_numbers;
      if (is_first || first == 0) loaded = first;
      is_first = false;
      for (loaded = std::max(loaded, first); loaded < first + kept_rows_; ++loaded) {
        if (loaded - s.top >= s.height || pixels == 0) continue;
        const auto from = image + (loaded - s.top) * row_numbers + (loads - s.left) * s.x_pixel;
        Number* const to = lines + loaded % kept_rows_ * line_ + loads * channels_;
        if (s.x_pixel != s.channels) {
          for (size_t i = 0; i < pixels; ++i)
            this->load(from + i * s.x_pixel, s.channels, to + i * channels_);
        } else if (is_wider_) this->load_wider(from, pixels, s.channels, spare, to);
        else this->load(from, pixels * s.channels, to);
      }
      for (size_t ky = 0; ky < s.kernel_height; ++ky) {
        const size_t y = first + ky * s.dilation_y;
        if (y - s.top >= s.height) segments[ky] = zeros;
        else if (kept_rows_) segments[ky] = lines + y % kept_rows_ * line_;
        else segments[ky] = Base::numbers(image + (y - s.top) * row_numbers);
        segments[ky] += column * s.stride_x * channels_;
      }
      const size_t pixel = row * s.out_width + column;
      kernel_.run(this->product(
          b, {columns, s.out_channels, s.kernel_width * channels_, s.kernel_height, segments,
              s.stride_x * channels_, packed(), this->y(b) + pixel * s.y_pixel, s.y_pixel,
              0, panels_, e.from_pixel(pixel)}));
      begin += last - part;
    }
  }

  using Base::shape_;
  typename Base::Kernel kernel_;
  bool is_wider_;
  size_t channels_, panels_, kept_rows_ = 0, line_;
  Arena weights_;
};

}  // namespace

StepPtr make_row_conv(const Node& node, const ConvShape& shape) {
  return std::make_unique<RowConv<FloatConv>>(node, shape);
}

StepPtr make_row_conv_bf16(const Node& node, const ConvShape& shape) {
  return std::make_unique<RowConv<Bf16Conv>>(node, shape);
}

}  // namespace palm
