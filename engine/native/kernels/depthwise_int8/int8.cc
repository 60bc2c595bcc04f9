// The products of four taps are summed at once: the bytes of four pixels are joined to fours for
// each channel. Where the stride is 1 the fours of pixels side by side serve several outputs, with
// weights moved along.
#include "kernels/depthwise_int8/depthwise_int8.h"
#include "kernels/finish_int8.h"

namespace palm {
namespace {

constexpr size_t kMostTaps = DepthwiseInt8::kMostTaps;

// Outputs that share their fours, and the fours of a row of the kernel for these: so many pixels
// that none is left over. One output: fours of taps wherever these lie.
size_t shared_outputs(const DepthwiseInt8Window& w, size_t columns) {
  if (w.stride != 1 || w.dilation != 1 || w.channels < 16) return 1;
  if (w.kernel_width == 3 && columns >= 2) return 2;
  if (w.kernel_width == 5 && columns >= 4) return 4;
  return 1;
}

size_t fours_of(const DepthwiseInt8Window& w, size_t outputs) {
  if (outputs == 1) return (w.taps() + 3) / 4;
  return w.kernel_height * outputs * (w.kernel_width + outputs - 1) / 4;
}

// Channels [first, first + N), of which those before `from` are done already.
struct Block {
  size_t first, channels;
};

// The next block when all channels before `done` are done. A block may begin before that: those
// come out the same. Of fewer than 16 channels there is one block of 16.
Block next_block(size_t channels, size_t done) {
  const size_t left = channels - done;
  size_t n = kMostChannels;
  while (n > 16 && (n / 2 >= left || n > channels)) n /= 2;
  return {n <= left || n > channels ? done : channels - n, n};
}

template <size_t N>
struct Packed {
  using Number = typename Channels<N>::Number;
  static constexpr size_t kFour = 4 * N;  // Numbers

  const char* at;

  const int32_t* bias() const { return reinterpret_cast<const int32_t*>(at); }
  const float* scale() const { return reinterpret_cast<const float*>(at) + N; }
  const Number* weights() const { return reinterpret_cast<const Number*>(at + 8 * N); }
};

// Sums in the order of channels, of which fours lie side by side.
template <size_t N>
__attribute__((noinline)) void order(const typename Channels<N>::Sums* sums, int32_t* to) {
  using C = Channels<N>;
  int32_t room[C::lanes];
  for (size_t v = 0; v < 4; ++v) {
    C::store(sums[v], room);
    for (size_t i = 0; i < C::lanes; i += 4)
      __builtin_memcpy(to + C::channel_of(v, i), room + i, 4 * sizeof *to);
  }
}

// The sums of one pixel, in the order of channels, to bytes.
__attribute__((noinline)) void finish_pixel(const DepthwiseInt8& d, size_t x, size_t first,
                                            size_t count, const int32_t* sums) {
  const EpilogueInt8& e = d.epilogue;
  finish(e, sums, 0, 1, count, first,
         e.residual ? e.residual + x * e.residual_stride + first : nullptr,
         d.y + (x * d.y_pixel + first), 0);
}

// The sums of one pixel to bytes; `count` of them are channels.
template <size_t N>
PALM_INLINE void end_pixel(const DepthwiseInt8& d, const Packed<N>& packed, ByteRange range,
                           size_t x, size_t first, size_t count,
                           const typename Channels<N>::Sums* sums) {
  using C = Channels<N>;
  if constexpr (C::kHasBytes) {
    if (d.epilogue.is_plain && !d.epilogue.residual) {
      uint8_t* const y = d.y.bytes() + x * d.y_pixel + first;
      if (count == N) return C::store_bytes(range, sums, packed.scale(), y);
      uint8_t bytes[N];
      C::store_bytes(range, sums, packed.scale(), bytes);
      for (size_t i = 0; i < count; ++i) y[i] = bytes[i];
      return;
    }
  }
  int32_t all[N];
  const typename C::Sums each[] = {sums[0], sums[1], sums[2], sums[3]};
  order<N>(each, all);
  finish_pixel(d, x, first, count, all);
}

// Fours of any taps. kFours: so many, if not 0.
template <size_t N, size_t kFours>
void run_taps(const DepthwiseInt8& d, Packed<N> packed, size_t first, size_t count) {
  using C = Channels<N>;
  const DepthwiseInt8Window& w = d.window;
  const size_t taps = w.taps(), fours = kFours ? kFours : fours_of(w, 1);
  const uint8_t* tap[kMostTaps + 3];
  for (size_t t = 0; t < fours * 4; ++t) {
    // What is beyond the last has weights of 0.
    const size_t ky = t < taps ? t / w.kernel_width : 0, kx = t < taps ? t % w.kernel_width : 0;
    tap[t] = d.rows[ky] + kx * w.dilation * w.channels + first;
  }
  const ByteRange range = range_of(d.epilogue);
  const size_t step = w.stride * w.channels;
  for (size_t x = 0, at = 0; x < d.columns; ++x, at += step) {
    typename C::Sums sums[4];
    PALM_UNROLL for (size_t v = 0; v < 4; ++v)
      sums[v] = C::load_sums(packed.bias() + v * C::lanes);
    const auto* weights = packed.weights();
    const auto add = [&](size_t q) {
      const uint8_t* const* const t = tap + q * 4;
      C::dot(
          C::join(C::load(t[0] + at), C::load(t[1] + at), C::load(t[2] + at), C::load(t[3] + at)),
          weights, sums);
      weights += packed.kFour;
    };
    if constexpr (kFours) {
      PALM_UNROLL for (size_t q = 0; q < kFours; ++q)
        add(q);
    } else {
      for (size_t q = 0; q < fours; ++q) add(q);
    }
    end_pixel(d, packed, range, x, first, count, sums);
  }
}

// kOutputs at once of a kernel kWidth wide.
template <size_t N, size_t kWidth, size_t kOutputs>
void run_shared(const DepthwiseInt8& d, Packed<N> packed, size_t first, size_t count) {
  using C = Channels<N>;
  constexpr size_t kFours = (kWidth + kOutputs - 1) / 4;
  const size_t channels = d.window.channels;
  const ByteRange range = range_of(d.epilogue);
  for (size_t next = 0; next < d.columns; next += kOutputs) {
    const size_t x = next + kOutputs <= d.columns ? next : d.columns - kOutputs;
    typename C::Sums sums[kOutputs][4];
    PALM_UNROLL for (size_t v = 0; v < 4; ++v) {
      const auto start = C::load_sums(packed.bias() + v * C::lanes);
      PALM_UNROLL for (size_t o = 0; o < kOutputs; ++o)
        sums[o][v] = start;
    }
    const auto* weights = packed.weights();
    for (size_t ky = 0; ky < d.window.kernel_height; ++ky) {
      const uint8_t* p = d.rows[ky] + x * channels + first;
      PALM_UNROLL for (size_t q = 0; q < kFours; ++q, p += 4 * channels) {
        const auto fours = C::join(C::load(p), C::load(p + channels), C::load(p + 2 * channels),
                                   C::load(p + 3 * channels));
        PALM_UNROLL for (size_t o = 0; o < kOutputs; ++o, weights += packed.kFour)
          C::dot(fours, weights, sums[o]);
      }
    }
    PALM_UNROLL for (size_t o = 0; o < kOutputs; ++o)
      end_pixel(d, packed, range, x + o, first, count, sums[o]);
  }
}

template <size_t N>
size_t block_bytes(size_t fours) {
  return 8 * N + fours * Packed<N>::kFour * sizeof(typename Packed<N>::Number);
}

// Returns the bytes of the block's weights.
template <size_t N>
size_t run_block(const DepthwiseInt8& d, size_t outputs, const char* packed, size_t first) {
  const DepthwiseInt8Window& w = d.window;
  const size_t fours = fours_of(w, outputs);
  const auto run = outputs == 2   ? run_shared<N, 3, 2>
                   : outputs == 4 ? run_shared<N, 5, 4>
                   : fours == 3   ? run_taps<N, 3>
                                  : run_taps<N, 0>;
  run(d, Packed<N>{packed}, first, w.channels < N ? w.channels : N);
  return block_bytes<N>(fours);
}

// Weight i of a four for output `o`; -1: none, its weight is 0.
ptrdiff_t tap_of(const DepthwiseInt8Window& w, size_t outputs, size_t four, size_t i) {
  if (outputs == 1) return four * 4 + i < w.taps() ? static_cast<ptrdiff_t>(four * 4 + i) : -1;
  const size_t o = four % outputs, row_fours = (w.kernel_width + outputs - 1) / 4;
  const size_t q = four / outputs % row_fours, ky = four / outputs / row_fours;
  const size_t kx = q * 4 + i - o;  // wraps round to a large number on the left
  return kx < w.kernel_width ? static_cast<ptrdiff_t>(ky * w.kernel_width + kx) : -1;
}

template <size_t N>
__attribute__((cold, noinline)) size_t pack_block(const DepthwiseInt8Window& w, size_t outputs,
                                                  const int8_t* from, const EpilogueInt8& e,
                                                  char* packed, size_t first) {
  using C = Channels<N>;
  const size_t fours = fours_of(w, outputs);
  if (!packed) return block_bytes<N>(fours);
  int32_t* const bias = reinterpret_cast<int32_t*>(packed);
  float* const scale = reinterpret_cast<float*>(packed) + N;
  auto* to = reinterpret_cast<typename C::Number*>(packed + 8 * N);
  for (size_t v = 0; v < 4; ++v) {
    for (size_t lane = 0; lane < C::lanes; ++lane) {
      const size_t c = first + C::channel_of(v, lane), at = v * C::lanes + lane;
      const bool inside = c < w.channels;
      bias[at] = inside ? e.bias[c] : 0;
      scale[at] = inside ? e.scale[c] : 0.f;
    }
  }
  const size_t taps = w.taps();
  for (size_t four = 0; four < fours; ++four, to += 4 * N) {
    for (size_t i = 0; i < 4; ++i) {
      const ptrdiff_t tap = tap_of(w, outputs, four, i);
      for (size_t v = 0; v < 4; ++v) {
        for (size_t lane = 0; lane < C::lanes; ++lane) {
          const size_t c = first + C::channel_of(v, lane);
          to[v * N + C::place(lane, i)] =
              c < w.channels && tap >= 0 ? from[c * taps + static_cast<size_t>(tap)] : 0;
        }
      }
    }
  }
  return block_bytes<N>(fours);
}

}  // namespace

void PALM_FN(depthwise_int8)(const DepthwiseInt8& d) {
  const size_t outputs = shared_outputs(d.window, d.columns), channels = d.window.channels;
  const char* packed = d.weights;
  for (size_t done = 0; done < channels;) {
    const Block block = next_block(channels, done);
    done = block.first + block.channels;
    if constexpr (kMostChannels >= 64) {
      if (block.channels == 64) packed += run_block<64>(d, outputs, packed, block.first);
    }
    if constexpr (kMostChannels >= 32) {
      if (block.channels == 32) packed += run_block<32>(d, outputs, packed, block.first);
    }
    if (block.channels == 16) packed += run_block<16>(d, outputs, packed, block.first);
  }
}

__attribute__((cold)) size_t PALM_SUFFIX(pack_depthwise_int8,
                                         PALM_ISA_NAME)(const DepthwiseInt8Window& window,
                                                        size_t columns, const int8_t* w,
                                                        const EpilogueInt8& epilogue,
                                                        char* packed) {
  const size_t outputs = shared_outputs(window, columns), channels = window.channels;
  size_t bytes = 0;
  for (size_t done = 0; done < channels;) {
    const Block block = next_block(channels, done);
    done = block.first + block.channels;
    char* const to = packed ? packed + bytes : nullptr;
    if constexpr (kMostChannels >= 64) {
      if (block.channels == 64)
        bytes += pack_block<64>(window, outputs, w, epilogue, to, block.first);
    }
    if constexpr (kMostChannels >= 32) {
      if (block.channels == 32)
        bytes += pack_block<32>(window, outputs, w, epilogue, to, block.first);
    }
    if (block.channels == 16)
      bytes += pack_block<16>(window, outputs, w, epilogue, to, block.first);
  }
  return bytes;
}

int32_t PALM_SUFFIX(offset_depthwise_int8, PALM_ISA_NAME)() { return kOffset; }

}  // namespace palm
