#include "base/simd.h"

#include "kernels/pool_int8/pool_int8.h"

namespace palm {
namespace {

template <size_t kBytes>
struct Vectors;
#define PALM_VECTORS(bytes)                                       \
  template <>                                                     \
  struct Vectors<bytes> {                                         \
    typedef uint8_t Bytes __attribute__((vector_size(bytes)));    \
    typedef int32_t Sums __attribute__((vector_size(4 * bytes))); \
    typedef float Floats __attribute__((vector_size(4 * bytes))); \
  };
PALM_VECTORS(64)
PALM_VECTORS(16)
PALM_VECTORS(4)
#undef PALM_VECTORS

// kBytes channels from `at` on.
template <size_t kBytes>
PALM_INLINE void most(const PoolInt8& p, size_t at, uint8_t* y) {
  using Bytes = typename Vectors<kBytes>::Bytes;
  Bytes all, x;
  std::memcpy(&all, p.x[0] + at, kBytes);
  for (size_t t = 1; t < p.taps; ++t) {
    std::memcpy(&x, p.x[t] + at, kBytes);
    all = x > all ? x : all;
  }
  std::memcpy(y, &all, kBytes);
}

template <size_t kBytes>
PALM_INLINE void mean(const PoolInt8& p, size_t at, uint8_t* y) {
  using Bytes = typename Vectors<kBytes>::Bytes;
  using Sums = typename Vectors<kBytes>::Sums;
  using Floats = typename Vectors<kBytes>::Floats;
  Sums sums = Sums{} - static_cast<int32_t>(p.taps) * p.zero;
  Bytes x;
  for (size_t t = 0; t < p.taps; ++t) {
    std::memcpy(&x, p.x[t] + at, kBytes);
    sums += __builtin_convertvector(x, Sums);
  }
  Floats v = __builtin_convertvector(sums, Floats) * p.factor;
  const Floats low = Floats{} + p.to.low, high = Floats{} + p.to.high;
  v = v > low ? v : low;
  v = v < high ? v : high;
  v += 12582912.f;  // as in byte_of
  std::memcpy(&sums, &v, sizeof sums);
  const Bytes bytes = __builtin_convertvector(sums - 0x4b400000 + p.to.zero, Bytes);
  std::memcpy(y, &bytes, kBytes);
}

template <size_t kBytes>
PALM_INLINE void piece(const PoolInt8& p, size_t at, uint8_t* y) {
  if (p.max) return most<kBytes>(p, at, y);
  constexpr size_t kPart = kBytes < 16 ? kBytes : 16;
  for (size_t i = 0; i < kBytes; i += kPart) mean<kPart>(p, at + i, y + i);
}

// Whole vectors, the last one over the one before it.
template <size_t kBytes>
void pixels(const PoolInt8& p) {
  uint8_t* y = p.y;
  for (size_t i = 0; i < p.pixels; ++i, y += p.n) {
    size_t c = 0;
    for (; c + kBytes <= p.n; c += kBytes) piece<kBytes>(p, i * p.step + c, y + c);
    if (c < p.n) piece<kBytes>(p, i * p.step + p.n - kBytes, y + p.n - kBytes);
  }
}

}  // namespace

void PALM_FN(pool_int8)(const PoolInt8& pool) {
  if (pool.n >= 64) return pixels<64>(pool);
  if (pool.n >= 16) return pixels<16>(pool);
  if (pool.n >= 4) return pixels<4>(pool);
  for (size_t i = 0; i < pool.pixels; ++i) {
    for (size_t c = 0; c < pool.n; ++c) {
      int32_t sum = -static_cast<int32_t>(pool.taps) * pool.zero, all = 0;
      for (size_t t = 0; t < pool.taps; ++t) {
        const int32_t x = pool.x[t][i * pool.step + c];
        sum += x;
        all = x > all ? x : all;
      }
      pool.y[i * pool.n + c] = pool.max ? static_cast<uint8_t>(all)
                                        : byte_of(static_cast<float>(sum) * pool.factor, pool.to);
    }
  }
}

}  // namespace palm
