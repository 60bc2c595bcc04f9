#pragma once
#include <cstddef>
#include <cstdint>

namespace palm {

// Can this host compute CRC-32 faster than a table?
bool has_fast_crc32();

// The CRC-32 of zlib, gzip and IEEE 802.3. Fast only where has_fast_crc32().
uint32_t crc32(const void* data, size_t size);

}  // namespace palm
