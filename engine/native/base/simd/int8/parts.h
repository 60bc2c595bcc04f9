#pragma once
// Bytes of a part of a vector, for sets without masks.

namespace palm {
namespace {

// Fewer than F32::lanes.
inline void copy_bytes(const uint8_t* from, size_t n, uint8_t* to) {
  if constexpr (F32::lanes > 4) {
    if (n & 4) {
      __builtin_memcpy(to, from, 4);
      to += 4;
      from += 4;
    }
  }
  if (n & 2) {
    __builtin_memcpy(to, from, 2);
    to += 2;
    from += 2;
  }
  if (n & 1) *to = *from;
}

inline F32 load_bytes(const uint8_t* p, size_t n, uint8_t other) {
  if (n == F32::lanes) return load_bytes(p);
  uint8_t bytes[F32::lanes];
  for (uint8_t& each : bytes) each = other;
  copy_bytes(p, n, bytes);
  return load_bytes(bytes);
}

inline void store_bytes(F32 x, int32_t zero, uint8_t* p, size_t n) {
  if (n == F32::lanes) return store_bytes(x, zero, p);
  uint8_t bytes[F32::lanes];
  store_bytes(x, zero, bytes);
  copy_bytes(bytes, n, p);
}

}  // namespace
}  // namespace palm
