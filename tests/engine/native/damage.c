#include "damage.h"

#include <string.h>

enum { TRAILER = 24, FOOTER = 24 };

static uint32_t crc32(const unsigned char *data, size_t size) {
  static uint32_t table[256];
  uint32_t crc = 0xffffffffu;
  size_t i;
  if (!table[1]) {
    uint32_t byte;
    for (byte = 256; byte--;) {
      uint32_t rest = byte;
      for (i = 0; i < 8; ++i) rest = rest >> 1 ^ (rest & 1 ? 0xEDB88320u : 0);
      table[byte] = rest;
    }
  }
  for (i = 0; i < size; ++i) crc = crc >> 8 ^ table[(crc ^ data[i]) & 0xff];
  return ~crc;
}

static void put(unsigned char *at, uint64_t value, size_t width) {
  for (; width; --width, value >>= 8) *at++ = (unsigned char)value;
}

void seal(unsigned char *file, size_t size) {
  put(file + size - 16, size, 8);
  put(file + size - 4, crc32(file, size - 4), 4);
}

void check_damage(const bytes *file) {
  const size_t places = 400;
  palm_model *model;
  size_t i;
  for (i = 0; i < places; ++i) {
    const size_t place = i < 60 ? file->size - 1 - i : file->size * i / places;
    bytes part = bytes_of(place);
    memcpy(part.data, file->data, place);
    FAILS(PALM_ERROR_MODEL, palm_open_bytes(part.data, part.size, PALM_BORROW, &model));
    if (place > 100) {
      seal(part.data, part.size);
      CHECK(palm_open_bytes(part.data, part.size, PALM_BORROW, &model) && !model);
    }
    free(part.data);
    file->data[place] ^= (unsigned char)(1 << i % 8);
    FAILS(PALM_ERROR_MODEL, palm_open_bytes(file->data, file->size, PALM_BORROW, &model));
    file->data[place] ^= (unsigned char)(1 << i % 8);
  }
}

void check_lies(const unsigned char *file, size_t size) {
  static const uint64_t sizes[] = {1,
                                   (uint64_t)1 << 31,
                                   ((uint64_t)1 << 32) - 1,
                                   (uint64_t)1 << 32,
                                   ((uint64_t)1 << 62) + 40,
                                   (uint64_t)-1,
                                   (uint64_t)-64};
  /* Of the tables, of the plans, and of the plans when they are inflated; their widths. */
  const size_t places[] = {size - TRAILER, size - TRAILER - FOOTER + 8,
                           size - TRAILER - FOOTER + 20};
  const size_t widths[] = {8, 8, 4};
  size_t p, s;
  for (p = 0; p < 3; ++p) {
    for (s = 0; s < sizeof sizes / sizeof *sizes; ++s) {
      bytes lying = bytes_of(size);
      palm_model *model;
      palm_status status;
      memcpy(lying.data, file, size);
      put(lying.data + places[p], sizes[s], widths[p]);
      seal(lying.data, size);
      status = palm_open_bytes(lying.data, size, PALM_BORROW, &model);
      /* Tables that are said to be smaller only make the data section begin where it does not, and
       * 0 says that plans are not deflated. */
      if (p || sizes[s] > 1) CHECK(status == PALM_ERROR_MODEL || status == PALM_ERROR_SHAPE ||
                                   (p == 2 && !(uint32_t)sizes[s]));
      palm_model_free(model);
      free(lying.data);
    }
  }
}

uint64_t next_random(uint64_t *state) {
  /* S. Vigna: splitmix64, 2015. */
  uint64_t z = *state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

size_t damage(unsigned char *file, size_t size, uint64_t *random) {
  static const uint64_t edges[] = {0,      1,          2,           3,          4,       7,
                                   8,      0x7f,       0x80,        0xff,       0x7fff,  0xffff,
                                   1 << 16, 0x7fffffff, 0x80000000u, 0xffffffffu, (uint64_t)-1};
  const size_t edge_count = sizeof edges / sizeof *edges;
  size_t times = 1 + next_random(random) % 4;
  while (times--) {
    const uint64_t bits = next_random(random);
    const size_t width = (size_t)1 << bits % 4;
    /* Every other place is among the last bytes, where the plans are. */
    const size_t within = bits & 16 && size > 4096 ? 4096 : size;
    size_t place = size - within + next_random(random) % (within - 8);
    if (bits & 32) place -= place % width;
    switch (bits >> 8 & 7) {
      case 0:
      case 1: file[place] ^= (unsigned char)(1 << (bits >> 16 & 7)); break;
      case 2:
      case 3: put(file + place, edges[(bits >> 16) % edge_count], width); break;
      case 4: file[place] = (unsigned char)(file[place] + (bits & 64 ? 1 : -1)); break;
      case 5: memmove(file + place, file + next_random(random) % (size - 8), width); break;
      case 6: put(file + place, next_random(random), width); break;
      default: {
        const size_t cut = next_random(random) % (size - place);
        if (bits & 128 || size - cut < 256) break;
        memmove(file + place, file + place + cut, size - place - cut);
        size -= cut;
      }
    }
  }
  seal(file, size);
  return size;
}
