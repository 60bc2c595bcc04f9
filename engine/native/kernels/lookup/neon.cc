#include <arm_neon.h>

#include "kernels/lookup/lookup.h"

namespace palm {

// An instruction looks up 64 entries and leaves what it has where the index is beyond them.
void lookup_neon(const uint8_t* table, size_t n, const uint8_t* x, uint8_t* y) {
  uint8x16x4_t part[4];
  for (size_t k = 0; k < 4; ++k)
    for (size_t v = 0; v < 4; ++v) part[k].val[v] = vld1q_u8(table + k * 64 + v * 16);
  size_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const uint8x16_t index = vld1q_u8(x + i);
    uint8x16_t found = vqtbl4q_u8(part[0], index);
    found = vqtbx4q_u8(found, part[1], vsubq_u8(index, vdupq_n_u8(64)));
    found = vqtbx4q_u8(found, part[2], vsubq_u8(index, vdupq_n_u8(128)));
    found = vqtbx4q_u8(found, part[3], vsubq_u8(index, vdupq_n_u8(192)));
    vst1q_u8(y + i, found);
  }
  for (; i < n; ++i) y[i] = table[x[i]];
}

}  // namespace palm
