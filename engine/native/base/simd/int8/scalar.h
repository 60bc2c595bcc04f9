#pragma once

namespace palm {
namespace {

struct S32 {
  static constexpr size_t lanes = 4;
  typedef int32_t Unaligned __attribute__((vector_size(16), aligned(4), may_alias));
  F32::I v;
  static S32 load(const int32_t* p) { return {*reinterpret_cast<const Unaligned*>(p)}; }
  void store(int32_t* p) const { *reinterpret_cast<Unaligned*>(p) = v; }
};
using S32Half = S32;

inline F32 to_float(S32 a) { return {__builtin_convertvector(a.v, F32::V)}; }

inline F32 load_bytes(const uint8_t* p) {
  const F32::I v = {p[0], p[1], p[2], p[3]};
  return to_float({v});
}

inline void store_bytes(F32 x, int32_t zero, uint8_t* p) {
  for (size_t i = 0; i < F32::lanes; ++i)
    p[i] = static_cast<uint8_t>(static_cast<int32_t>(__builtin_nearbyintf(x.v[i])) + zero);
}

}  // namespace
}  // namespace palm

#include "base/simd/int8/parts.h"

namespace palm {
namespace {

constexpr size_t kQuadRegisters = 11;  // four rows are enough
constexpr size_t kMaxVectors = 1;
constexpr int32_t kOffset = 0;

template <class S>
struct Quads;

template <>
struct Quads<S32> {
  using Number = int16_t;
  F32::I v[4];
  static constexpr size_t place(size_t lane, size_t i) { return i * S32::lanes + lane; }
  static Quads load(const int16_t* p) {
    Quads q;
    for (size_t i = 0; i < 4; ++i, p += 4) q.v[i] = F32::I{p[0], p[1], p[2], p[3]};
    return q;
  }
  static Quads set(uint32_t bytes) {
    Quads q;
    uint8_t each[4];
    __builtin_memcpy(each, &bytes, sizeof each);
    for (size_t i = 0; i < 4; ++i) q.v[i] = F32::I{} + each[i];
    return q;
  }
  friend S32 dot(Quads bytes, Quads weights, S32 c) {
    for (size_t i = 0; i < 4; ++i) c.v += bytes.v[i] * weights.v[i];
    return c;
  }
};

constexpr bool kHasBytesOfRows = false;

template <>
struct Channels<16> {
  static constexpr size_t lanes = 4;
  using Number = int16_t;
  struct Bytes {
    uint8_t v[16];
  };
  using Sums = F32::I;
  struct Fours {
    Bytes v[4];
  };
  static constexpr size_t channel_of(size_t vector, size_t lane) { return vector * 4 + lane; }
  static constexpr size_t place(size_t lane, size_t i) { return lane * 4 + i; }
  static Bytes load(const void* from) {
    Bytes b;
    __builtin_memcpy(b.v, from, sizeof b.v);
    return b;
  }
  static Sums load_sums(const int32_t* p) { return S32::load(p).v; }
  static void store(Sums x, void* to) { S32{x}.store(static_cast<int32_t*>(to)); }
  static Fours join(const Bytes& a, const Bytes& b, const Bytes& c, const Bytes& d) {
    return {{a, b, c, d}};
  }
  static void dot(const Fours& bytes, const Number* weights, Sums* sums) {
    for (size_t c = 0; c < 16; ++c)
      for (size_t i = 0; i < 4; ++i) sums[c / 4][c % 4] += bytes.v[i].v[c] * weights[c * 4 + i];
  }
  static constexpr bool kHasBytes = false;
};
constexpr size_t kMostChannels = 16;

}  // namespace
}  // namespace palm
