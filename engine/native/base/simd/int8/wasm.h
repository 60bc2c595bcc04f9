#pragma once

namespace palm {
namespace {

struct S32 {
  static constexpr size_t lanes = 4;
  v128_t v;
  static S32 load(const int32_t* p) { return {wasm_v128_load(p)}; }
  void store(int32_t* p) const { wasm_v128_store(p, v); }
};
using S32Half = S32;

inline F32 to_float(S32 a) { return {wasm_f32x4_convert_i32x4(a.v)}; }

inline F32 load_bytes(const uint8_t* p) {
  const v128_t words = wasm_u16x8_extend_low_u8x16(wasm_v128_load32_zero(p));
  return {wasm_f32x4_convert_i32x4(wasm_u32x4_extend_low_u16x8(words))};
}

inline void store_bytes(F32 x, int32_t zero, uint8_t* p) {
  const v128_t whole = wasm_i32x4_trunc_sat_f32x4(wasm_f32x4_nearest(x.v));
  const v128_t sum = wasm_i32x4_add(whole, wasm_i32x4_splat(zero));
  const v128_t words = wasm_i16x8_narrow_i32x4(sum, sum);
  wasm_v128_store32_lane(p, wasm_u8x16_narrow_i16x8(words, words), 0);
}

}  // namespace
}  // namespace palm

#include "base/simd/int8/parts.h"

namespace palm {
namespace {

constexpr size_t kQuadRegisters = 3;
constexpr size_t kMaxVectors = 2;
constexpr int32_t kOffset = 0;

// The sums of products of words in pairs, added to c.
inline v128_t add_pairs(v128_t a, v128_t b, v128_t c) {
  return wasm_i32x4_add(c, wasm_i32x4_dot_i16x8(a, b));
}
inline v128_t even_bytes(v128_t words) { return words & wasm_i16x8_const_splat(255); }
inline v128_t odd_bytes(v128_t words) { return wasm_u16x8_shr(words, 8); }

template <class S>
struct Quads;

// As 16-bit numbers, whose products in pairs cannot overflow: the first and the third of each
// four, then the others.
template <>
struct Quads<S32> {
  using Number = int16_t;
  v128_t even, odd;
  static constexpr size_t place(size_t lane, size_t i) {
    return i % 2 * 2 * S32::lanes + lane * 2 + i / 2;
  }
  static Quads load(const int16_t* p) {
    return {wasm_v128_load(p), wasm_v128_load(p + 2 * S32::lanes)};
  }
  static Quads set(uint32_t bytes) {
    const v128_t all = wasm_u32x4_splat(bytes);
    return {even_bytes(all), odd_bytes(all)};
  }
  friend S32 dot(Quads bytes, Quads weights, S32 c) {
    return {add_pairs(bytes.odd, weights.odd, add_pairs(bytes.even, weights.even, c.v))};
  }
};

constexpr bool kHasBytesOfRows = false;

template <>
struct Channels<16> {
  static constexpr size_t lanes = 4;
  using Number = int16_t;
  using Bytes = v128_t;
  using Sums = v128_t;
  struct Fours {
    Bytes v[4];
  };
  static constexpr size_t channel_of(size_t vector, size_t lane) { return vector * 4 + lane; }
  // As Quads<S32>.
  static constexpr size_t place(size_t lane, size_t i) {
    return i % 2 * 2 * lanes + lane * 2 + i / 2;
  }
  static Bytes load(const void* from) { return wasm_v128_load(from); }
  static Sums load_sums(const int32_t* from) { return wasm_v128_load(from); }
  static void store(Sums x, void* to) { wasm_v128_store(to, x); }
  static PALM_INLINE Fours join(Bytes a, Bytes b, Bytes c, Bytes d) {
    const v128_t ab = low_bytes(a, b), cd = low_bytes(c, d);
    const v128_t ef = high_bytes(a, b), gh = high_bytes(c, d);
    return {{low_words(ab, cd), high_words(ab, cd), low_words(ef, gh), high_words(ef, gh)}};
  }
  static PALM_INLINE void dot(const Fours& bytes, const Number* weights, Sums* sums) {
    PALM_UNROLL for (size_t v = 0; v < 4; ++v) {
      const Number* const w = weights + v * 16;
      const v128_t sum = add_pairs(even_bytes(bytes.v[v]), wasm_v128_load(w), sums[v]);
      sums[v] = add_pairs(odd_bytes(bytes.v[v]), wasm_v128_load(w + 2 * lanes), sum);
    }
  }
  static constexpr bool kHasBytes = true;
  static PALM_INLINE void store_bytes(ByteRange range, const Sums* sums, const float* scale,
                                      uint8_t* y) {
    v128_t r[4];
    PALM_UNROLL for (size_t v = 0; v < 4; ++v) {
      const v128_t scaled =
          wasm_f32x4_mul(wasm_f32x4_convert_i32x4(sums[v]), wasm_v128_load(scale + v * lanes));
      r[v] = wasm_i32x4_trunc_sat_f32x4(wasm_f32x4_nearest(scaled));
    }
    const v128_t zero = wasm_i16x8_splat(range.zero);
    const v128_t ab = wasm_i16x8_add_sat(wasm_i16x8_narrow_i32x4(r[0], r[1]), zero);
    const v128_t cd = wasm_i16x8_add_sat(wasm_i16x8_narrow_i32x4(r[2], r[3]), zero);
    v128_t q = wasm_u8x16_narrow_i16x8(ab, cd);
    q = wasm_u8x16_max(q, wasm_u8x16_splat(range.low));
    q = wasm_u8x16_min(q, wasm_u8x16_splat(range.high));
    wasm_v128_store(y, q);
  }

 private:
  static v128_t low_bytes(v128_t a, v128_t b) {
    return wasm_i8x16_shuffle(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  }
  static v128_t high_bytes(v128_t a, v128_t b) {
    return wasm_i8x16_shuffle(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
  }
  static v128_t low_words(v128_t a, v128_t b) {
    return wasm_i16x8_shuffle(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
  }
  static v128_t high_words(v128_t a, v128_t b) {
    return wasm_i16x8_shuffle(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
  }
};
constexpr size_t kMostChannels = 16;

}  // namespace
}  // namespace palm
