#include <immintrin.h>

#include "kernels/lookup/lookup.h"

namespace palm {

// An instruction looks up 128 entries: two of them, by the index's last bit but seven.
void lookup_avx512vbmi(const uint8_t* table, size_t n, const uint8_t* x, uint8_t* y) {
  __m512i part[4];
  for (size_t i = 0; i < 4; ++i) part[i] = _mm512_loadu_si512(table + i * 64);
  for (size_t i = 0; i < n; i += 64) {
    const __mmask64 some = n - i < 64 ? (1ull << (n - i)) - 1 : ~0ull;
    const __m512i index = _mm512_maskz_loadu_epi8(some, x + i);
    const __m512i low = _mm512_permutex2var_epi8(part[0], index, part[1]);
    const __m512i high = _mm512_permutex2var_epi8(part[2], index, part[3]);
    _mm512_mask_storeu_epi8(y + i, some,
                            _mm512_mask_blend_epi8(_mm512_movepi8_mask(index), low, high));
  }
}

}  // namespace palm
