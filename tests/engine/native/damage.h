/* Damaged files for the C tests. */
#ifndef DAMAGE_H
#define DAMAGE_H

#include <stddef.h>
#include <stdint.h>

#include "golden.h"

/* Makes the size and the checksum of a file right, so that only its content is wrong. */
void seal(unsigned char *file, size_t size);

/* No damaged file is opened, nor one that is cut short and has a right checksum. */
void check_damage(const bytes *file);

/* Files with plans whose sizes are not true are not opened. */
void check_lies(const unsigned char *file, size_t size);

/* A number that follows from the one before. */
uint64_t next_random(uint64_t *state);

/* Changes a file in a few places, cuts it or not, and seals it; returns its size. */
size_t damage(unsigned char *file, size_t size, uint64_t *random);

#endif
