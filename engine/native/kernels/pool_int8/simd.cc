#include "base/simd.h"

#include "kernels/pool_int8/pool_int8.h"

namespace palm {
namespace {

// The maximum of kBytes channels from x on.
template <size_t kBytes>
PALM_INLINE void most(const PoolInt8& p, const uint8_t* x, uint8_t* y) {
  typedef uint8_t Bytes __attribute__((vector_size(kBytes)));
  Bytes all = {}, one;
  for (size_t r = 0; r < p.rows; ++r) {
    const uint8_t* tap = x + r * p.row_step;
    for (size_t t = 0; t < p.columns; ++t, tap += p.tap_step) {
      std::memcpy(&one, tap, kBytes);
      all = one > all ? one : all;
    }
  }
  std::memcpy(y, &all, kBytes);
}

// Whole vectors, the last one over the one before it.
template <size_t kBytes>
void most_of_pixels(const PoolInt8& p) {
  for (size_t i = 0; i < p.pixels; ++i) {
    const uint8_t* const x = p.x + i * p.step;
    uint8_t* const y = p.y + i * p.y_step;
    size_t c = 0;
    for (; c + kBytes <= p.n; c += kBytes) most<kBytes>(p, x + c, y + c);
    if (c < p.n) most<kBytes>(p, x + p.n - kBytes, y + p.n - kBytes);
  }
}

// sums[c] += the bytes of n channels, of four taps at once where there are as many.
void add(const uint8_t* x, size_t taps, size_t step, size_t n, int32_t* sums) {
  for (; taps >= 4; taps -= 4, x += 4 * step) {
    const uint8_t *const a = x, *const b = a + step, *const c = b + step, *const d = c + step;
    for (size_t i = 0; i < n; ++i) sums[i] += a[i] + b[i] + c[i] + d[i];
  }
  for (; taps > 0; --taps, x += step)
    for (size_t i = 0; i < n; ++i) sums[i] += x[i];
}

constexpr size_t kSums = 256, kBlock = 16;

// The mean of n <= kSums channels from x on. Of few channels that lie side by side with those of
// the next taps, many taps are one, and their sums are added up at the end.
void mean(const PoolInt8& p, const uint8_t* x, size_t n, uint8_t* y) {
  const size_t beside = p.tap_step == n && p.columns > 1 ? kSums / n : 1;
  const size_t wide = p.columns / beside, rest = p.columns % beside;
  int32_t sums[kSums];
  for (size_t i = 0; i < beside * n; i += kBlock) std::memset(sums + i, 0, kBlock * sizeof *sums);
  for (size_t r = 0; r < p.rows; ++r) {
    const uint8_t* const row = x + r * p.row_step;
    add(row, wide, beside * p.tap_step, beside * n, sums);
    if (rest) add(row + wide * beside * n, 1, 0, rest * n, sums);
  }
  for (size_t i = n; i < beside * n; i += n)
    for (size_t c = 0; c < n; ++c) sums[c] += sums[i + c];
  const int32_t zero = static_cast<int32_t>(p.taps()) * p.zero;
  const float factor = p.factor;
  const ToByte to = p.to;
  uint8_t bytes[kSums];
  for (size_t i = 0; i < n; i += kBlock)
    for (size_t c = i; c < i + kBlock; ++c)
      bytes[c] = byte_of(static_cast<float>(sums[c] - zero) * factor, to);
  std::memcpy(y, bytes, n);
}

}  // namespace

void PALM_FN(pool_int8)(const PoolInt8& p) {
  if (p.max) {
    if (p.n >= 64) return most_of_pixels<64>(p);
    if (p.n >= 16) return most_of_pixels<16>(p);
    if (p.n >= 4) return most_of_pixels<4>(p);
    return most_of_pixels<1>(p);
  }
  for (size_t i = 0; i < p.pixels; ++i) {
    for (size_t c = 0; c < p.n; c += kSums) {
      const size_t n = p.n - c < kSums ? p.n - c : kSums;
      mean(p, p.x + i * p.step + c, n, p.y + i * p.y_step + c);
    }
  }
}

}  // namespace palm
