#pragma once
// What base/simd/int8/ adds to the vectors of base/simd.h for products of bytes:
//   S32, of as many lanes as F32: int32 sums; to_float(a), each rounded;
//   load_bytes(p, n, other): n bytes as floats, and in the other lanes `other`;
//   store_bytes(x, zero, p, n): n bytes of x + zero, x rounded half to even and in
//   [-zero, 255 - zero];
//   Quads<S>: four weights for each lane of S, packed as Quads<S>::Number, number i of a lane at
//   place(lane, i), or four bytes for all lanes, of() these for other lanes; dot(bytes, weights, c)
//   = c + the sum of four products, kOffset being taken off each byte.
// kQuadRegisters: what a product takes besides sums and weights; kMaxVectors: of a GEMM's panel.
// Where kHasBytesOfRows is true, store_bytes_of_rows makes bytes of the sums of 1 to 4 rows, one
// vector each: rounded sum * scale, plus zero, clipped; |sum * scale| < 2^31.
//
// Channels<N>, for N of 16 and twice that up to kMostChannels: N channels with a sum each. Fours
// join the Bytes of four pixels; dot(fours, weights, sums) adds four products to each sum, of
// weights that are Numbers, [4 vectors][N], each vector's by place(lane, i). Sum i of vector v is
// channel_of(v, i). Where kHasBytes is true, store_bytes does what store_bytes_of_rows does, scale
// being in the order of the sums.
#include "base/simd.h"

namespace palm {
namespace {

struct ByteRange {
  int16_t zero;
  uint8_t low, high;
};

template <int kRows>
struct Rows {};

template <size_t kChannels>
struct Channels;

}  // namespace
}  // namespace palm

// clang-format off
#define PALM_INT8_HEADER(isa) PALM_STR(base/simd/int8/isa.h)
// clang-format on
#include PALM_INT8_HEADER(PALM_ISA_NAME)
