#pragma once
// What the set adds to NEON: numbers in memory as float16, and sums in float of products of pairs
// of them (FMLAL), each product exact and each sum rounded once.
#include "base/bf16.h"
#include "base/simd/neon.h"

namespace palm {
namespace {

inline float16x4_t load_halves(const Bf16* p) { return vreinterpret_f16_u16(vld1_u16(&p->bits)); }
inline float16x4_t load_halves(const Bf16* p, size_t n) {
  if (n >= F32::lanes) return load_halves(p);
  Bf16 all[F32::lanes] = {};
  for (size_t i = 0; i < n; ++i) all[i] = p[i];
  return load_halves(all);
}

inline F32 load(const Bf16* p, F32*) { return {vcvt_f32_f16(load_halves(p))}; }
inline F32 load(const Bf16* p, size_t n, F32*) { return {vcvt_f32_f16(load_halves(p, n))}; }
inline void store(F32 x, Bf16* p) { vst1_u16(&p->bits, vreinterpret_u16_f16(vcvt_f16_f32(x.v))); }
inline void store(F32 x, Bf16* p, size_t n) {
  if (n >= F32::lanes) return store(x, p);
  Bf16 all[F32::lanes];
  store(x, all);
  for (size_t i = 0; i < n; ++i) p[i] = all[i];
}

// Numbers as they are, compared as integers.
struct Bf16s {
  static constexpr size_t lanes = 8;
  int16x8_t v;
  static Bf16s load(const Bf16* p) { return {vreinterpretq_s16_u16(vld1q_u16(&p->bits))}; }
  static Bf16s set(Bf16 x) { return {vdupq_n_s16(static_cast<int16_t>(x.bits))}; }
  void store(Bf16* p) const { vst1q_u16(&p->bits, vreinterpretq_u16_s16(v)); }
  // Integers in the order of the numbers, NaNs outside of the infinite ones by their sign; twice it
  // is the number again.
  Bf16s key() const {
    const uint16x8_t below = vshrq_n_u16(vreinterpretq_u16_s16(vshrq_n_s16(v, 15)), 1);
    return {veorq_s16(v, vreinterpretq_s16_u16(below))};
  }
  friend Bf16s max(Bf16s a, Bf16s b) { return {vmaxq_s16(a.v, b.v)}; }
  friend Bf16s min(Bf16s a, Bf16s b) { return {vminq_s16(a.v, b.v)}; }
  // a < b ? x : y
  friend Bf16s less(Bf16s a, Bf16s b, Bf16s x, Bf16s y) {
    return {vbslq_s16(vcltq_s16(a.v, b.v), x.v, y.v)};
  }
  friend bool any_less(Bf16s a, Bf16s b) { return vmaxvq_u16(vcltq_s16(a.v, b.v)) != 0; }
};

// Which of a vector's numbers are there.
using Mask = size_t;
inline Mask mask_of(size_t n) { return n; }

// A pair of numbers for each lane of V, and c + the sum of two products in each lane.
template <class V>
struct Pairs;

template <>
struct Pairs<F32> {
  // The same pair in each lane.
  struct Same {
    float16x4_t v;
  };

  float16x8_t v;  // the firsts of all pairs, then the seconds

  // Where the number of lane `lane` lies, first or second of its pair.
  static constexpr size_t place(size_t lane, size_t second) {
    return lane / F32::lanes * (2 * F32::lanes) + second * F32::lanes + lane % F32::lanes;
  }
  static Pairs load(const Bf16* p) { return {vreinterpretq_f16_u16(vld1q_u16(&p->bits))}; }
  static Same set(uint32_t pair) { return {vreinterpret_f16_u32(vdup_n_u32(pair))}; }
  // Numbers as the first of pairs whose second is zero.
  static Pairs firsts(const Bf16* p, Mask mask) {
    return {vcombine_f16(load_halves(p, mask), vreinterpret_f16_u16(vdup_n_u16(0)))};
  }
  // Pairs of two firsts.
  friend Pairs join(Pairs a, Pairs b) {
    return {vcombine_f16(vget_low_f16(a.v), vget_low_f16(b.v))};
  }
  friend F32 first_of(Pairs a) { return {vcvt_f32_f16(vget_low_f16(a.v))}; }
  friend F32 second_of(Pairs a) { return {vcvt_high_f32_f16(a.v)}; }
  friend F32 dot(Pairs a, Pairs b, F32 c) {
    return {vfmlalq_high_f16(vfmlalq_low_f16(c.v, a.v, b.v), a.v, b.v)};
  }
  friend F32 dot(Same a, Pairs b, F32 c) {
    return {vfmlalq_lane_high_f16(vfmlalq_lane_low_f16(c.v, b.v, a.v, 0), b.v, a.v, 1)};
  }
};

}  // namespace
}  // namespace palm
