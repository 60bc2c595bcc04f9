#include <immintrin.h>

#include "kernels/lookup/lookup.h"

namespace palm {
namespace {

constexpr size_t kVectors = 4;

__m128i* vector(uint8_t* p) { return reinterpret_cast<__m128i*>(p); }
const __m256i* wide(const uint8_t* p) { return reinterpret_cast<const __m256i*>(p); }

}  // namespace

// A shuffle looks up 16 entries by the index's last four bits and gives 0 where the index is
// negative. So with each 16 that is taken off an index, fewer entries are looked up; the exclusive
// or of neighbouring parts of the table leaves the last one that was. The table's second half is
// met by indices with another sign.
void lookup_avx2(const uint8_t* table, size_t n, const uint8_t* x, uint8_t* y) {
  alignas(32) uint8_t steps[256];
  for (size_t i = 0; i < 256; ++i) steps[i] = table[i] ^ (i % 128 < 16 ? 0 : table[i - 16]);
  const __m256i sixteen = _mm256_set1_epi8(16), sign = _mm256_set1_epi8(-128);
  size_t i = 0;
  for (; i + kVectors * 32 <= n; i += kVectors * 32) {
    __m256i index[kVectors], found[kVectors];
    for (size_t v = 0; v < kVectors; ++v) {
      index[v] = _mm256_loadu_si256(wide(x + i) + v);
      found[v] = _mm256_setzero_si256();
    }
    for (size_t half = 0; half < 256; half += 128) {
      __m256i at[kVectors];
      for (size_t v = 0; v < kVectors; ++v)
        at[v] = half ? _mm256_xor_si256(index[v], sign) : index[v];
      for (size_t k = half; k < half + 128; k += 16) {
        const __m256i part = _mm256_broadcastsi128_si256(_mm_load_si128(vector(steps + k)));
        for (size_t v = 0; v < kVectors; ++v) {
          found[v] = _mm256_xor_si256(found[v], _mm256_shuffle_epi8(part, at[v]));
          at[v] = _mm256_subs_epi8(at[v], sixteen);
        }
      }
    }
    for (size_t v = 0; v < kVectors; ++v)
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(y + i) + v, found[v]);
  }
  for (; i < n; ++i) y[i] = table[x[i]];
}

}  // namespace palm
