#pragma once
#include "base/bf16.h"
#include "kernels/epilogue.h"

namespace palm {

// Numbers in memory, as float or as Bf16. Always inline: files for different instruction sets
// must not share a copy.
template <class Void, class Float, class Narrow>
struct EitherPointer {
  Void* data = nullptr;
  bool is_narrow = false;

  __attribute__((always_inline)) EitherPointer operator+(size_t n) const {
    EitherPointer moved = *this;
    moved.data = is_narrow ? static_cast<Void*>(narrow() + n) : floats() + n;
    return moved;
  }
  __attribute__((always_inline)) Float* floats() const { return static_cast<Float*>(data); }
  __attribute__((always_inline)) Narrow* narrow() const { return static_cast<Narrow*>(data); }
};
using EitherIn = EitherPointer<const void, const float, const Bf16>;
using EitherOut = EitherPointer<void, float, Bf16>;

// An Epilogue whose residual is float or Bf16; `plain` has all but the residual.
struct EpilogueBf16 {
  Epilogue plain;
  EitherIn residual;  // null: none
  size_t residual_stride = 0, residual_channels = 0;

  EpilogueBf16 from_channel(size_t first) const {
    EpilogueBf16 e = *this;
    e.plain = plain.from_channel(first);
    if (!residual.data) return e;
    e.residual = residual_channels > first ? residual + first : EitherIn();
    e.residual_channels = residual_channels > first ? residual_channels - first : 0;
    return e;
  }

  EpilogueBf16 from_pixel(size_t first) const {
    EpilogueBf16 e = *this;
    if (residual.data) e.residual = residual + first * residual_stride;
    return e;
  }
};

}  // namespace palm
