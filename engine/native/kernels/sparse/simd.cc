#include "base/simd.h"

#include "kernels/sparse/sparse.h"

namespace palm {
namespace {

// A block's sums of one channel are in registers: as many as hide an FMA's latency.
constexpr int kVectors = F32::lanes == 16 ? 4 : F32::registers == 32 ? 16 : 8;
constexpr size_t kWidth = kVectors * F32::lanes;
// From line to line: not a power of two, by which lines would share few sets of the L1 cache.
constexpr size_t kStride = kWidth + 16;
// Channels that are put into y at once: a cache line of each pixel.
constexpr size_t kChannels = 16;
constexpr size_t kSquare = 4;

// to[i * to_stride + j] = from[j * from_stride + i], i and j below kSquare.
PALM_INLINE void transpose_square(const float* from, size_t from_stride, float* to,
                                  size_t to_stride) {
  using Row = float __attribute__((vector_size(kSquare * sizeof(float))));
  Row r[kSquare], half[kSquare];
  for (size_t j = 0; j < kSquare; ++j) __builtin_memcpy(&r[j], from + j * from_stride, sizeof(Row));
  for (size_t j = 0; j < 2; ++j) {
    half[j] = __builtin_shufflevector(r[j], r[j + 2], 0, 4, 1, 5);
    half[j + 2] = __builtin_shufflevector(r[j], r[j + 2], 2, 6, 3, 7);
  }
  for (size_t i = 0; i < kSquare; i += 2) {
    r[i] = __builtin_shufflevector(half[i], half[i + 1], 0, 4, 1, 5);
    r[i + 1] = __builtin_shufflevector(half[i], half[i + 1], 2, 6, 3, 7);
  }
  for (size_t i = 0; i < kSquare; ++i) __builtin_memcpy(to + i * to_stride, &r[i], sizeof(Row));
}

// to[j][i] = from[i][j], i < rows, j < columns. kAlong: a row of `to` after the other, else of
// from.
template <bool kAlong>
void transpose(size_t rows, size_t columns, const float* from, size_t from_stride, float* to,
               size_t to_stride) {
  const size_t square_rows = rows / kSquare * kSquare, square_columns = columns / kSquare * kSquare;
  const auto square = [&](size_t i, size_t j) {
    transpose_square(from + i * from_stride + j, from_stride, to + j * to_stride + i, to_stride);
  };
  if constexpr (kAlong) {
    for (size_t j = 0; j < square_columns; j += kSquare)
      for (size_t i = 0; i < square_rows; i += kSquare) square(i, j);
  } else {
    for (size_t i = 0; i < square_rows; i += kSquare)
      for (size_t j = 0; j < square_columns; j += kSquare) square(i, j);
  }
  for (size_t i = 0; i < rows; ++i)
    for (size_t j = i < square_rows ? square_columns : 0; j < columns; ++j)
      to[j * to_stride + i] = from[i * from_stride + j];
}

// One channel of `kCount` vectors of pixels.
template <int kCount>
void channel(const Sparse& s, size_t m, bool has_residual, float* sums) {
  constexpr int kChains = kCount * 2 <= kVectors ? 2 : 1;
  const Epilogue& e = s.epilogue;
  F32 sum[kChains][kCount];
  const F32 start = F32::set(e.bias ? e.bias[m] : 0.f);
  PALM_UNROLL for (int v = 0; v < kCount; ++v) {
    sum[0][v] = has_residual ? start + F32::load(sums + v * F32::lanes) : start;
    if constexpr (kChains == 2) sum[1][v] = F32::set(0.f);
  }
  const SparseWeight* w = s.weights + (m ? s.ends[m - 1] : 0);
  const SparseWeight* const end = s.weights + s.ends[m];
  const float* const lines = s.lines;
  const auto add = [&](int chain, const SparseWeight& one) {
    const F32 value = F32::set(one.value);
    const float* const line = lines + one.offset;
    PALM_UNROLL for (int v = 0; v < kCount; ++v) {
      sum[chain][v] = fma(F32::load(line + v * F32::lanes), value, sum[chain][v]);
    }
  };
  if constexpr (kChains == 2) {
    for (; end - w >= 2; w += 2) {
      add(0, w[0]);
      add(1, w[1]);
    }
  }
  for (; w != end; ++w) add(0, *w);
  const F32 slope = F32::set(e.slope ? e.slope[m] : 0.f), none = F32::set(0.f);
  const F32 low = F32::set(e.low), high = F32::set(e.high);
  PALM_UNROLL for (int v = 0; v < kCount; ++v) {
    F32 y = sum[0][v];
    if constexpr (kChains == 2) y = y + sum[1][v];
    y = e.slope ? fma(min(none, y), slope, max(none, y)) : min(high, max(low, y));
    y.store(sums + v * F32::lanes);
  }
}

using Channel = void (*)(const Sparse& s, size_t m, bool has_residual, float* sums);

template <int kCount>
constexpr Channel channel_of() {
  constexpr int kMost = kCount < kVectors ? kCount : kVectors;
  return channel<kMost>;
}

// By vectors - 1.
constexpr Channel kChannelFns[16] = {
    channel_of<1>(),  channel_of<2>(),  channel_of<3>(),  channel_of<4>(),
    channel_of<5>(),  channel_of<6>(),  channel_of<7>(),  channel_of<8>(),
    channel_of<9>(),  channel_of<10>(), channel_of<11>(), channel_of<12>(),
    channel_of<13>(), channel_of<14>(), channel_of<15>(), channel_of<16>()};

}  // namespace

void PALM_SUFFIX(gather_sparse_f32, PALM_ISA_NAME)(const Sparse& s) {
  transpose<false>(s.pixels, s.in, s.x, s.x_stride, s.lines, kStride);
  const size_t end = (s.pixels + F32::lanes - 1) / F32::lanes * F32::lanes;
  for (size_t k = 0; k < s.in; ++k)
    for (size_t i = s.pixels; i < end; ++i) s.lines[k * kStride + i] = 0.f;
}

void PALM_FN(sparse_f32)(const Sparse& s, size_t begin, size_t end) {
  const Channel run = kChannelFns[(s.pixels + F32::lanes - 1) / F32::lanes - 1];
  const Epilogue& e = s.epilogue;
  alignas(64) float sums[kChannels * kStride];
  for (size_t m = begin; m < end; m += kChannels) {
    const size_t count = end - m < kChannels ? end - m : kChannels;
    size_t residuals = 0;
    if (e.residual && e.residual_channels > m) {
      const size_t left = e.residual_channels - m;
      residuals = left < count ? left : count;
      for (size_t i = 0; i < residuals * kStride; ++i) sums[i] = 0.f;
      transpose<false>(s.pixels, residuals, e.residual + m, e.residual_stride, sums, kStride);
    }
    for (size_t i = 0; i < count; ++i) run(s, m + i, i < residuals, sums + i * kStride);
    float* const y = s.y + m;
    transpose<true>(count, s.pixels, sums, kStride, y, s.y_stride);
    if (e.post) e.post(e.post_data, s.pixels, count, y, s.y_stride);
  }
}

SparseBlock PALM_SUFFIX(block_sparse_f32, PALM_ISA_NAME)() { return {kWidth, kStride}; }

}  // namespace palm
