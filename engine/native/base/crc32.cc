#include "base/crc32.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace palm {
namespace {

// Bit i stands for x^(31 - i); x^32 is left out.
constexpr uint32_t kPolynomial = 0xEDB88320;

constexpr uint32_t times_x(uint32_t p) { return p >> 1 ^ (p & 1 ? kPolynomial : 0); }

#if defined(__x86_64__)

// For what is left of runs that are folded.
uint32_t add_bytes(uint32_t crc, const unsigned char* data, size_t size) {
  for (; size; --size) {
    crc ^= *data++;
    for (int i = 0; i < 8; ++i) crc = times_x(crc);
  }
  return crc;
}

#define PALM_CARRYLESS __attribute__((target("pclmul,sse2")))
#define PALM_WIDE __attribute__((target("vpclmulqdq,avx512f")))

// x^n, a place further up as a product of reversed factors needs it.
constexpr long long power(int n) {
  uint32_t p = 1u << 31;
  while (n--) p = times_x(p);
  return static_cast<long long>(p) << 1;
}

// What brings the halves of 16 bytes `bytes` further.
constexpr long long low(int bytes) { return power(8 * bytes + 32); }
constexpr long long high(int bytes) { return power(8 * bytes - 32); }

// Polynomials that leave the same rest as all bytes so far are folded onto those that come, after
// Gopal, Ozturk, Guilford et al.: Fast CRC Computation for Generic Polynomials Using PCLMULQDQ
// Instruction, Intel 2009. The last 16 bytes and what follows are divided bit by bit.
PALM_CARRYLESS __m128i fold(__m128i x, __m128i by, __m128i next) {
  const __m128i product =
      _mm_xor_si128(_mm_clmulepi64_si128(x, by, 0x00), _mm_clmulepi64_si128(x, by, 0x11));
  return _mm_xor_si128(product, next);
}

PALM_CARRYLESS uint32_t finish(__m128i x, const unsigned char* data, size_t size) {
  constexpr long long kLow = low(16), kHigh = high(16);
  for (; size >= 16; data += 16, size -= 16)
    x = fold(x, _mm_set_epi64x(kHigh, kLow), _mm_loadu_si128((const __m128i*)data));
  unsigned char rest[16];
  _mm_storeu_si128((__m128i*)rest, x);
  return add_bytes(add_bytes(0, rest, 16), data, size);
}

PALM_CARRYLESS uint32_t add_carryless(uint32_t crc, const unsigned char* data, size_t size) {
  constexpr int kBytes = 64;
  constexpr long long kLow = low(kBytes), kHigh = high(kBytes), kLow1 = low(16), kHigh1 = high(16);
  const __m128i by = _mm_set_epi64x(kHigh, kLow);
  __m128i x[4];
  for (int i = 0; i < 4; ++i) x[i] = _mm_loadu_si128((const __m128i*)data + i);
  x[0] = _mm_xor_si128(x[0], _mm_cvtsi32_si128(static_cast<int>(crc)));
  for (data += kBytes, size -= kBytes; size >= kBytes; data += kBytes, size -= kBytes)
    for (int i = 0; i < 4; ++i) x[i] = fold(x[i], by, _mm_loadu_si128((const __m128i*)data + i));
  for (int i = 1; i < 4; ++i) x[0] = fold(x[0], _mm_set_epi64x(kHigh1, kLow1), x[i]);
  return finish(x[0], data, size);
}

PALM_WIDE __m512i fold(__m512i x, __m512i by, __m512i next) {
  return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(x, by, 0x00),
                                   _mm512_clmulepi64_epi128(x, by, 0x11), next, 0x96);
}

PALM_WIDE uint32_t add_wide(uint32_t crc, const unsigned char* data, size_t size) {
  constexpr int kBytes = 256;
  constexpr long long kLow = low(kBytes), kHigh = high(kBytes), kLow1 = low(64), kHigh1 = high(64);
  const __m512i by = _mm512_set4_epi64(kHigh, kLow, kHigh, kLow);
  __m512i x[4];
  for (int i = 0; i < 4; ++i) x[i] = _mm512_loadu_si512((const __m512i*)data + i);
  x[0] = _mm512_xor_si512(x[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(crc))));
  for (data += kBytes, size -= kBytes; size >= kBytes; data += kBytes, size -= kBytes)
    for (int i = 0; i < 4; ++i) x[i] = fold(x[i], by, _mm512_loadu_si512((const __m512i*)data + i));
  for (int i = 1; i < 4; ++i)
    x[0] = fold(x[0], _mm512_set4_epi64(kHigh1, kLow1, kHigh1, kLow1), x[i]);
  unsigned char rest[64];
  _mm512_storeu_si512(rest, x[0]);
  __m128i last = _mm_loadu_si128((const __m128i*)rest);
  constexpr long long kLow2 = low(16), kHigh2 = high(16);
  for (int i = 1; i < 4; ++i)
    last = fold(last, _mm_set_epi64x(kHigh2, kLow2), _mm_loadu_si128((const __m128i*)rest + i));
  return finish(last, data, size);
}

bool has_wide() {
  return __builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("avx512f");
}

#else

struct Table {
  constexpr Table() : rest() {
    for (uint32_t byte = 0; byte < 256; ++byte) {
      rest[byte] = byte;
      for (int i = 0; i < 8; ++i) rest[byte] = times_x(rest[byte]);
    }
  }
  uint32_t rest[256];
};

constexpr Table kTable;

uint32_t add_bytes(uint32_t crc, const unsigned char* data, size_t size) {
  for (; size; --size) crc = crc >> 8 ^ kTable.rest[(crc ^ *data++) & 0xff];
  return crc;
}

constexpr size_t kAtOnce = 8;
// By how many bytes come behind a byte: its rest.
using Tables = uint32_t[kAtOnce][256];

// In calls of their own: browsers compile a loop well for the next call, not for the one that runs.
__attribute__((noinline)) uint32_t add_eights(const Tables& rest, uint32_t crc,
                                              const unsigned char* data, size_t size) {
  for (; size >= kAtOnce; data += kAtOnce, size -= kAtOnce) {
    uint32_t low, high;
    __builtin_memcpy(&low, data, sizeof low);
    __builtin_memcpy(&high, data + sizeof low, sizeof high);
    low ^= crc;
    crc = 0;
    for (size_t i = 0; i < 4; ++i)
      crc ^= rest[7 - i][low >> 8 * i & 0xff] ^ rest[3 - i][high >> 8 * i & 0xff];
  }
  return crc;
}

uint32_t add_many(uint32_t crc, const unsigned char* data, size_t size) {
  constexpr size_t kCall = 16 << 10;
  Tables rest;
  for (size_t byte = 0; byte < 256; ++byte) {
    rest[0][byte] = kTable.rest[byte];
    for (size_t i = 1; i < kAtOnce; ++i)
      rest[i][byte] = rest[i - 1][byte] >> 8 ^ kTable.rest[rest[i - 1][byte] & 0xff];
  }
  for (; size >= kCall; data += kCall, size -= kCall) crc = add_eights(rest, crc, data, kCall);
  return add_bytes(crc, data, size);
}

#endif

}  // namespace

bool has_fast_crc32() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("pclmul");
#else
  return false;
#endif
}

uint32_t crc32(const void* data, size_t size) {
  const unsigned char* const bytes = static_cast<const unsigned char*>(data);
#if defined(__x86_64__)
  if (size >= 256 && has_wide()) return ~add_wide(~0u, bytes, size);
  if (size >= 64 && has_fast_crc32()) return ~add_carryless(~0u, bytes, size);
#else
  constexpr size_t kMany = 16 << 10;
  if (size >= kMany) return ~add_many(~0u, bytes, size);
#endif
  return ~add_bytes(~0u, bytes, size);
}

}  // namespace palm
