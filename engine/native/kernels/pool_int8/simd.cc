#include "base/simd.h"

#include "kernels/pool_int8/pool_int8.h"

namespace palm {
namespace {

constexpr size_t kBlock = 64;

// kWhole: of kBlock channels, a number that the compiler knows.
template <bool kWhole>
void most(const PoolInt8& p, size_t at, size_t count) {
  const size_t n = kWhole ? kBlock : count;
  uint8_t y[kBlock];
  for (size_t c = 0; c < n; ++c) y[c] = p.x[0][at + c];
  for (size_t t = 1; t < p.taps; ++t) {
    const uint8_t* const x = p.x[t] + at;
    for (size_t c = 0; c < n; ++c) y[c] = x[c] > y[c] ? x[c] : y[c];
  }
  for (size_t c = 0; c < n; ++c) p.y[at + c] = y[c];
}

template <bool kWhole>
void mean(const PoolInt8& p, size_t at, size_t count) {
  const size_t n = kWhole ? kBlock : count;
  const int32_t less = static_cast<int32_t>(p.taps) * p.zero;
  const float factor = p.factor;
  const ToByte to = p.to;
  int32_t sum[kBlock];
  for (size_t c = 0; c < n; ++c) sum[c] = -less;
  for (size_t t = 0; t < p.taps; ++t) {
    const uint8_t* const x = p.x[t] + at;
    for (size_t c = 0; c < n; ++c) sum[c] += x[c];
  }
  uint8_t y[kBlock];
  for (size_t c = 0; c < n; ++c) y[c] = byte_of(static_cast<float>(sum[c]) * factor, to);
  for (size_t c = 0; c < n; ++c) p.y[at + c] = y[c];
}

}  // namespace

void PALM_FN(pool_int8)(const PoolInt8& pool) {
  size_t c = 0;
  for (; c + kBlock <= pool.n; c += kBlock) {
    if (pool.max) most<true>(pool, c, kBlock);
    else mean<true>(pool, c, kBlock);
  }
  if (c == pool.n) return;
  if (pool.max) most<false>(pool, c, pool.n - c);
  else mean<false>(pool, c, pool.n - c);
}

}  // namespace palm
