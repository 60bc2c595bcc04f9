// Preloaded into a process: ends it by SIGKILL in the middle of the chosen
// change to the disk, or lets nothing more be written from the chosen one on.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static atomic_long count;
static atomic_long deadly = -1;
static atomic_int fills;

// From now on changes are counted from 1. The one of this number is the last;
// or, if `full`, the first for which the disk has no room. Less than 0: none
// is.
void deadly_arm(long number, int full) {
  count = 0;
  fills = full;
  deadly = number;
}

long deadly_count(void) { return count; }

static int is_last(void) { return deadly >= 0 && ++count == deadly && !fills; }

// What is written over takes no room.
static int has_no_room(int file, size_t size, off_t at) {
  struct stat status;
  if (!fills || deadly < 0 || count < deadly || fstat(file, &status) != 0) return 0;
  return at + (off_t)size > status.st_size;
}

static int is_on_disk(int file) {
  struct stat status;
  return fstat(file, &status) == 0 && S_ISREG(status.st_mode);
}

static void end(void) { kill(getpid(), SIGKILL); }

#define CHANGE(result, name, parameters, arguments)                  \
  result name parameters {                                           \
    static result(*real) parameters;                                 \
    if (!real) real = (result(*) parameters)dlsym(RTLD_NEXT, #name); \
    if (is_last()) end();                                            \
    return real arguments;                                           \
  }

// Of what is written half is there.
#define WRITE(name, parameters, arguments, half, at)                  \
  ssize_t name parameters {                                           \
    static ssize_t(*real) parameters;                                 \
    if (!real) real = (ssize_t(*) parameters)dlsym(RTLD_NEXT, #name); \
    if (!is_on_disk(file)) return real arguments;                     \
    if (is_last()) {                                                  \
      (void)!real half;                                               \
      end();                                                          \
    }                                                                 \
    if (has_no_room(file, size, at)) {                                \
      errno = ENOSPC;                                                 \
      return -1;                                                      \
    }                                                                 \
    return real arguments;                                            \
  }

WRITE(write, (int file, const void* bytes, size_t size), (file, bytes, size),
      (file, bytes, size / 2), lseek(file, 0, SEEK_CUR))
WRITE(pwrite, (int file, const void* bytes, size_t size, off_t at), (file, bytes, size, at),
      (file, bytes, size / 2, at), at)
WRITE(pwrite64, (int file, const void* bytes, size_t size, off64_t at), (file, bytes, size, at),
      (file, bytes, size / 2, at), at)
CHANGE(int, fsync, (int file), (file))
CHANGE(int, fdatasync, (int file), (file))
CHANGE(int, ftruncate, (int file, off_t size), (file, size))
CHANGE(int, ftruncate64, (int file, off64_t size), (file, size))
CHANGE(int, rename, (const char* from, const char* to), (from, to))
CHANGE(int, renameat, (int a, const char* from, int b, const char* to), (a, from, b, to))
CHANGE(int, link, (const char* from, const char* to), (from, to))
CHANGE(int, linkat, (int a, const char* from, int b, const char* to, int flags),
       (a, from, b, to, flags))
CHANGE(int, unlink, (const char* path), (path))
CHANGE(int, unlinkat, (int at, const char* path, int flags), (at, path, flags))
