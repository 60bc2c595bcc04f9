// Transposed convolution. Where windows do not overlap, a GEMM for each row of x gives whole
// windows of y: a row of the window at a time straight to its place, or narrow ones side by side
// and then moved there. Otherwise the pixels of y that lie a stride apart are a convolution of x by
// every stride-th tap of the kernel: a GEMM of one segment for each run of taps, over rows of x
// with padding at both ends. With attribute precision "bfloat16", which only windows that do not
// overlap take, and of an even number of channels, x and y are float or bfloat16 each, and products
// are of bfloat16.
#include <algorithm>
#include <cstring>

#include "base/arena.h"
#include "base/needs.h"
#include "kernels/activation.h"
#include "kernels/cast_bf16/cast_bf16.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm_bf16/gemm_bf16.h"
#include "kernels/window.h"

namespace palm {
namespace {

constexpr Operands kOperands{"image weights bias slope", "y"};
constexpr size_t kX = kOperands.input("image"), kWeights = kOperands.input("weights"),
                 kBias = kOperands.input("bias"), kSlope = kOperands.input("slope");

// Along one axis: the outputs first, first + stride ..., `count` of them, which the same taps meet.
// Tap t takes input q + i - shift(t) to the i-th of them.
struct Phase {
  struct Tap {
    size_t tap, shift;
  };
  size_t rest, first, count, q;
  std::vector<Tap> taps;  // the greatest shift first
};

// Those that any tap meets.
std::vector<Phase> phases(size_t stride, size_t dilation, size_t kernel, size_t begin, size_t out) {
  std::vector<Phase> all;
  for (size_t tap = kernel; tap-- > 0;) {
    const size_t rest = tap * dilation % stride;
    const auto same = [=](const Phase& p) { return p.rest == rest; };
    auto found = std::find_if(all.begin(), all.end(), same);
    if (found == all.end()) {
      const size_t first = (rest + stride - begin % stride) % stride;
      if (first >= out) continue;
      const size_t count = (out - first + stride - 1) / stride;
      found = all.insert(all.end(), {rest, first, count, (first + begin) / stride, {}});
    }
    found->taps.push_back({tap, tap * dilation / stride});
  }
  return all;
}

size_t most_shift(const std::vector<Phase>& all) {
  size_t most = 0;
  for (const Phase& p : all) most = std::max(most, p.taps.front().shift);
  return most;
}

class ConvTranspose : public Step {
 public:
  explicit ConvTranspose(const Node& node)
      : window_(node, image(node.in(kWeights)).shape[1], image(node.in(kWeights)).shape[2]),
        kernel_(find_gemm(node.isa)),
        activation_(node, kSlope, image(node.any_out()).shape[3]) {
    narrow_ = node.attrs.text("precision", "high") == name_of(kNarrow);
    const Tensor& x = image(node.in(kX, either(node.any_in(kX))));
    const Tensor &w = node.in(kWeights), &y = node.out(0, either(node.any_out()));
    if (is_narrow()) narrow_kernel_ = find_gemm_bf16(node.isa), cast_ = find_cast_bf16(node.isa);
    narrow_x_ = x.dtype == kNarrow, narrow_y_ = y.dtype == kNarrow;
    images_ = x.shape[0], height_ = x.shape[1], width_ = x.shape[2], channels_ = x.shape[3];
    out_height_ = y.shape[1], out_width_ = y.shape[2], out_channels_ = y.shape[3];
    groups_ = size_attr({node.attrs.integer("group", 1)}, 0, "group", 1);
    const Ints extra = node.attrs.integers("output_padding", Ints{0, 0});
    const bool fits =
        y.shape[0] == images_ && channels_ && out_channels_ && w.shape[0] == channels_ &&
        channels_ % groups_ == 0 && out_channels_ % groups_ == 0 &&
        w.shape[3] == out_channels_ / groups_ && width_ && height_ &&
        out_height_ + window_.top + window_.bottom ==
            (height_ - 1) * window_.stride_y + (window_.kernel_height - 1) * window_.dilation_y +
                1 + size_attr(extra, 0, "output_padding", 0) &&
        out_width_ + window_.left + window_.right ==
            (width_ - 1) * window_.stride_x + (window_.kernel_width - 1) * window_.dilation_x + 1 +
                size_attr(extra, 1, "output_padding", 0);
    if (!fits) {
      fail(Fault::kModel, "%s by %s into %s does not fit its attributes", x.text().c_str(),
           w.text().c_str(), y.text().c_str());
    }
    depth_ = channels_ / groups_, group_out_ = out_channels_ / groups_;
    if (const float* bias = node.constant(kBias, out_channels_))
      bias_.assign(bias, bias + out_channels_);
    disjoint_ = window_.kernel_height == window_.stride_y &&
                window_.kernel_width == window_.stride_x && window_.dilation_y == 1 &&
                window_.dilation_x == 1 && out_height_ == height_ * window_.stride_y &&
                out_width_ == width_ * window_.stride_x && window_.top == 0 && window_.left == 0 &&
                groups_ == 1;
    const float* const weights = node.constant(kWeights, w.count);
    if (narrow_ && (!kNeedsBf16 || !disjoint_ || channels_ % 2))
      fail(Fault::kUnsupported, "%s by %s in bfloat16", x.text().c_str(), w.text().c_str());
    disjoint_ ? prepare_disjoint(weights) : prepare_phases(weights);
  }

  bool reads(size_t i) const override { return i == kX; }

  size_t scratch_bytes(int threads) const override {
    return checked_product(static_cast<size_t>(threads), thread_bytes_);
  }

  void run(const Buffers& b) const override {
    if (is_narrow()) run_narrow(b);
    else disjoint_ ? run_disjoint(b) : run_phases(b);
  }

 private:
  DType either(const Tensor& t) const {
    return is_narrow() && t.dtype == kNarrow ? t.dtype : DType::kFloat32;
  }

  // A GEMM makes `rows_` rows of the window; their bias and slopes stand once for each pixel.
  void prepare_disjoint(const float* w) {
    constexpr size_t kWide = 16;
    const size_t row = window_.kernel_width * out_channels_;
    rows_ = row < kWide ? window_.kernel_height : 1;
    columns_ = rows_ * row;
    const size_t parts = window_.kernel_height / rows_, stride = window_.taps() * out_channels_;
    const auto pack = [&](const auto& kernel, auto* number) {
      packed_ = kernel.pack(channels_, columns_, nullptr, stride, 1, nullptr);
      weights_ = Arena(checked_product(packed_, parts * sizeof *number));
      for (size_t part = 0; part < parts; ++part) {
        kernel.pack(channels_, columns_, w + part * columns_, stride, 1,
                    reinterpret_cast<decltype(number)>(weights_.data()) + part * packed_);
      }
    };
    if (is_narrow()) pack(narrow_kernel_, static_cast<Bf16*>(nullptr));
    else pack(kernel_, static_cast<float*>(nullptr));
    if (rows_ > 1) thread_bytes_ = round_up(checked_product(width_, columns_ * sizeof(float)));
    narrow_line_ = thread_bytes_ / sizeof(Bf16);
    if (is_narrow() && !narrow_x_)
      thread_bytes_ += round_up(checked_product(width_, channels_ * sizeof(Bf16)));
    const std::vector<float> once = bias_;
    const size_t pixels = columns_ / out_channels_;
    for (size_t t = 1; t < pixels; ++t) bias_.insert(bias_.end(), once.begin(), once.end());
    activation_.repeat(pixels);
  }

  void run_disjoint(const Buffers& b) const {
    const size_t row_floats = out_width_ * out_channels_, parts = window_.kernel_height / rows_;
    const auto post = activation_.epilogue(nullptr).post;
    const size_t work = width_ * window_.taps() * out_channels_ * channels_;
    b.pool->parallel(images_ * height_, grain_of(work), [&](size_t begin, size_t end, int thread) {
      Gemm gemm{};
      gemm.m = width_, gemm.n = gemm.ldc = columns_, gemm.k = channels_;
      gemm.segments = 1, gemm.lda = channels_;
      gemm.last_panel = kernel_.count_panels(columns_);
      gemm.epilogue = epilogue();
      for (size_t row = begin; row < end; ++row) {
        const float* const a = b.in(kX) + row * width_ * channels_;
        float* const y = b.out() + row * window_.stride_y * row_floats;
        gemm.a = &a;
        for (size_t part = 0; part < parts; ++part) {
          gemm.b = weights_.floats() + part * packed_;
          gemm.c = rows_ > 1 ? scratch(b, thread) : y + part * row_floats;
          kernel_.run(gemm);
        }
        if (rows_ > 1) spread(gemm.c, y);
        if (post) post(&activation_, 1, window_.stride_y * row_floats, y, 0);
      }
    });
  }

  // Constant where no library needs it, so that nothing of it is compiled.
  bool is_narrow() const { return kNeedsBf16 && narrow_; }

  void run_narrow(const Buffers& b) const {
    const size_t parts = window_.kernel_height / rows_, row_numbers = out_width_ * out_channels_;
    const size_t work = width_ * window_.taps() * out_channels_ * channels_ / 2;
    b.pool->parallel(images_ * height_, grain_of(work), [&](size_t begin, size_t end, int thread) {
      float* const windows = scratch(b, thread);
      Bf16* const spare = reinterpret_cast<Bf16*>(windows) + narrow_line_;
      for (size_t row = begin; row < end; ++row) {
        const size_t count = width_ * channels_;
        const EitherIn x = EitherIn{b.inputs[kX], narrow_x_} + row * count;
        const EitherOut y =
            EitherOut{b.outputs[0], narrow_y_} + row * window_.stride_y * row_numbers;
        if (!narrow_x_) cast_.narrow(x.floats(), count, spare);
        const Bf16* const a = narrow_x_ ? x.narrow() : spare;
        GemmBf16 gemm{};
        gemm.m = width_, gemm.n = gemm.ldc = columns_, gemm.k = gemm.lda = channels_;
        gemm.segments = 1, gemm.a = &a;
        gemm.last_panel = narrow_kernel_.count_panels(columns_);
        gemm.epilogue.plain = activation_.epilogue(bias_.empty() ? nullptr : bias_.data());
        for (size_t part = 0; part < parts; ++part) {
          gemm.b = reinterpret_cast<const Bf16*>(weights_.data()) + part * packed_;
          gemm.c = rows_ > 1 ? EitherOut{windows, narrow_y_} : y + part * row_numbers;
          narrow_kernel_.run(gemm);
        }
        if (rows_ > 1 && narrow_y_) spread(reinterpret_cast<const Bf16*>(windows), y.narrow());
        else if (rows_ > 1) spread(windows, y.floats());
      }
    });
  }

  // Moves windows that lie one after another to their place.
  template <class T>
  void spread(const T* from, T* y) const {
    const size_t run = columns_ / rows_;
    for (size_t ky = 0; ky < rows_; ++ky, from += run) {
      T* const to = y + ky * out_width_ * out_channels_;
      if (run % 4 == 0) move<4>(from, to, run);
      else if (run % 2 == 0) move<2>(from, to, run);
      else move<1>(from, to, run);
    }
  }

  template <size_t kFloats, class T>
  void move(const T* from, T* to, size_t run) const {
    for (size_t ix = 0; ix < width_; ++ix, from += columns_)
      for (size_t i = 0; i < run; i += kFloats, to += kFloats)
        std::memcpy(to, from + i, kFloats * sizeof(T));
  }

  void prepare_phases(const float* w) {
    const Window& v = window_;
    phases_y_ = phases(v.stride_y, v.dilation_y, v.kernel_height, v.top, out_height_);
    phases_x_ = phases(v.stride_x, v.dilation_x, v.kernel_width, v.left, out_width_);
    lead_ = most_shift(phases_x_), kept_lines_ = most_shift(phases_y_) + 1;
    size_t pixels = width_;
    for (const Phase& p : phases_x_) pixels = std::max(pixels, p.q + p.count);
    line_ = round_up(checked_product(lead_ + pixels, channels_ * sizeof(float))) / sizeof(float);
    thread_bytes_ = checked_product(kept_lines_ + 1, line_ * sizeof(float)) +
                    round_up(v.taps() * sizeof(float*));
    // Taps side by side in x are one run, if there is no other group between them.
    for (const Phase& p : phases_x_)
      for (size_t i = 1; i < p.taps.size(); ++i)
        runs_join_ &= p.taps[i - 1].shift == p.taps[i].shift + 1;
    runs_join_ &= groups_ == 1;
    for (const bool packing : {false, true}) {
      size_t floats = 0;
      for (const Phase& py : phases_y_)
        for (const Phase& px : phases_x_)
          for (size_t g = 0; g < groups_; ++g) {
            float* const to = packing ? weights_.floats() + floats : nullptr;
            if (!packing) offsets_.push_back(floats);
            floats = checked_product(1, floats + pack_phase(w, py, px, g, to));
          }
      if (!packing) weights_ = Arena(checked_product(floats, sizeof(float)));
    }
    if (phases_y_.size() == std::min(v.stride_y, out_height_) &&
        phases_x_.size() == std::min(v.stride_x, out_width_))
      return;
    // What no tap meets is the activation of the bias alone.
    const float zero = 0.f;
    const float* const a = &zero;
    const std::vector<float> none(out_channels_, 0.f);
    Arena b(kernel_.pack(1, out_channels_, nullptr, 1, 1, nullptr) * sizeof(float));
    kernel_.pack(1, out_channels_, none.data(), 1, 1, b.floats());
    untouched_.resize(out_channels_);
    kernel_.run({1, out_channels_, 1, 1, &a, 1, b.floats(), untouched_.data(), out_channels_, 0,
                 kernel_.count_panels(out_channels_), epilogue()});
  }

  // The weights of a phase: its taps in y, in x, then the group's channels. Returns the floats.
  size_t pack_phase(const float* w, const Phase& py, const Phase& px, size_t group,
                    float* packed) const {
    const size_t depth = py.taps.size() * px.taps.size() * depth_;
    if (!packed) return kernel_.pack(depth, group_out_, nullptr, group_out_, 1, nullptr);
    std::vector<float> rows;
    for (const Phase::Tap& ky : py.taps)
      for (const Phase::Tap& kx : px.taps)
        for (size_t c = group * depth_; c < (group + 1) * depth_; ++c) {
          const float* const row =
              w + (c * window_.taps() + ky.tap * window_.kernel_width + kx.tap) * group_out_;
          rows.insert(rows.end(), row, row + group_out_);
        }
    return kernel_.pack(depth, group_out_, rows.data(), group_out_, 1, packed);
  }

  void run_phases(const Buffers& b) const {
    const size_t taps = (window_.taps() - 1) / (window_.stride_y * window_.stride_x) + 1;
    const size_t work = out_width_ * out_channels_ * depth_ * taps;
    b.pool->parallel(
        images_ * out_height_, grain_of(work),
        [&](size_t begin, size_t end, int thread) { rows(b, begin, end, scratch(b, thread)); });
  }

  void rows(const Buffers& b, size_t begin, size_t end, float* lines) const {
    const Window& v = window_;
    const size_t in_floats = width_ * channels_, out_floats = out_width_ * out_channels_;
    const float* const zeros = lines + kept_lines_ * line_;
    const float** const segments =
        reinterpret_cast<const float**>(lines + (kept_lines_ + 1) * line_);
    std::memset(lines, 0, (kept_lines_ + 1) * line_ * sizeof(float));
    const Epilogue e = epilogue();
    const auto post = activation_.epilogue(nullptr).post;
    size_t loaded = 0;  // rows of x before this one are in `lines`, or no more needed
    for (size_t row = begin; row < end; ++row) {
      const size_t oy = row % out_height_, q = (oy + v.top) / v.stride_y;
      const float* const image = b.in(kX) + row / out_height_ * height_ * in_floats;
      float* const y = b.out() + row * out_floats;
      const size_t needed = q + 1 > kept_lines_ ? q + 1 - kept_lines_ : 0;
      if (row == begin || oy == 0) loaded = needed;
      for (loaded = std::max(loaded, needed); loaded <= q && loaded < height_; ++loaded)
        std::memcpy(lines + loaded % kept_lines_ * line_ + lead_ * channels_,
                    image + loaded * in_floats, in_floats * sizeof(float));
      if (!untouched_.empty())
        for (size_t i = 0; i < out_width_; ++i)
          std::memcpy(y + i * out_channels_, untouched_.data(), out_channels_ * sizeof(float));
      for (size_t i = 0; i < phases_y_.size(); ++i) {
        const Phase& py = phases_y_[i];
        if (py.rest != (oy + v.top) % v.stride_y) continue;
        for (size_t j = 0; j < phases_x_.size(); ++j)
          for (size_t g = 0; g < groups_; ++g)
            phase(py, phases_x_[j], g, offsets_[(i * phases_x_.size() + j) * groups_ + g], q, lines,
                  zeros, segments, e, y);
      }
      if (post) post(&activation_, 1, out_floats, y, 0);
    }
  }

  // What a phase gives of a row of y.
  void phase(const Phase& py, const Phase& px, size_t group, size_t offset, size_t q,
             const float* lines, const float* zeros, const float** segments, const Epilogue& e,
             float* y) const {
    size_t count = 0;
    for (const Phase::Tap& ky : py.taps) {
      const size_t iy = q - ky.shift;  // wraps round to a large number above the image
      const float* const line = iy < height_ ? lines + iy % kept_lines_ * line_ : zeros;
      for (const Phase::Tap& kx : px.taps) {
        segments[count++] = line + (lead_ + px.q - kx.shift) * channels_ + group * depth_;
        if (runs_join_) break;
      }
    }
    const size_t first = group * group_out_;
    kernel_.run({px.count, group_out_, runs_join_ ? px.taps.size() * depth_ : depth_, count,
                 segments, channels_, weights_.floats() + offset,
                 y + px.first * out_channels_ + first, window_.stride_x * out_channels_, 0,
                 kernel_.count_panels(group_out_), e.from_channel(first)});
  }

  // Without what is done to whole rows.
  Epilogue epilogue() const {
    Epilogue e = activation_.epilogue(bias_.empty() ? nullptr : bias_.data());
    e.post = nullptr;
    return e;
  }

  float* scratch(const Buffers& b, int thread) const {
    return reinterpret_cast<float*>(b.scratch + static_cast<size_t>(thread) * thread_bytes_);
  }

  Window window_;
  bool narrow_ = false, narrow_x_ = false, narrow_y_ = false;
  GemmKernel kernel_;
  GemmBf16Kernel narrow_kernel_{};
  CastBf16Kernel cast_{};
  Activation activation_;
  size_t images_, height_, width_, channels_, out_height_, out_width_, out_channels_, groups_;
  size_t depth_, group_out_, thread_bytes_ = 0;
  std::vector<float> bias_;
  Arena weights_;
  bool disjoint_;
  // Of windows that do not overlap.
  size_t rows_ = 0, columns_ = 0, packed_ = 0, narrow_line_ = 0;
  // Of others.
  std::vector<Phase> phases_y_, phases_x_;
  std::vector<size_t> offsets_;  // of the weights: of each phase in y, in x, of each group
  std::vector<float> untouched_;
  size_t lead_ = 0, kept_lines_ = 0, line_ = 0;
  bool runs_join_ = true;
};

}  // namespace

PALM_OPERANDS(conv_transpose, kOperands)
StepPtr make_conv_transpose(const Node& node) { return std::make_unique<ConvTranspose>(node); }

}  // namespace palm
