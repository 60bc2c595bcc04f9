#pragma once
// Runs of bytes, coded by how often each byte comes. What is decoded is not trusted.
//
//   Huffman   table, streams of codes: bits from the lowest up, canonical codes, the first bit of a
//             code lowest. 1024 bytes or more are 4 streams of ceil(n / 4) symbols, the last of the
//             rest, and before them the bytes of the first 3 as uint32; fewer are one stream.
//   Rans      table, the lanes' states as uint32, uint16 words. Symbol i is of lane i % lanes;
//   there
//             are 4 lanes from 1024 bytes up, below one. State x, 2^16 or more; slot = x mod 2^bits
//             belongs to a symbol that has `frequency` slots from `start`, and the next state is
//             frequency * (x >> bits) + slot - start; one below 2^16 takes a word in at its low
//             end. After the last symbol every state is 2^16.
//   Planes    uint8 count, for each plane uint8 coding and uint32 size, the planes: plane p has the
//             bytes p, p + count, p + 2 count ...
//
//   table     uint8 first symbol, uint8 last symbol, (Rans) uint8 bits; then bits, lowest first, to
//   a
//             whole byte: for each symbol its length (Huffman: of the code, Rans: of the frequency
//             as a binary number) as the difference to that of the symbol before, 0 2 4 ... for
//             0 1 2 ... and 1 3 5 ... for -1 -2 -3 ..., so many ones and a zero; Rans: the
//             frequency's bits below its highest.
// D. Huffman: A Method for the Construction of Minimum-Redundancy Codes, 1952. J. Duda: Asymmetric
// numeral systems, 2013; interleaved after F. Giesen: Interleaved entropy coders, 2014.
#include <cstddef>
#include <cstdint>
#include <vector>

namespace palm {

enum class Coding : uint8_t { kPlain, kHuffman, kRans, kPlanes };

// As `coding` says, with `planes` of its own for the bytes of elements of that size if it is
// kPlanes: each plane by what is smallest. Empty where a coding cannot: Rans of one kind of byte.
std::vector<uint8_t> encode_bytes(Coding coding, const uint8_t* from, size_t count,
                                  size_t planes = 1);

// Exactly `count` bytes from exactly `size` bytes; throws Error where they are not a run of that.
void decode_bytes(Coding coding, const uint8_t* from, size_t size, uint8_t* to, size_t count);

}  // namespace palm
