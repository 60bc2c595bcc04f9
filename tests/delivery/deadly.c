// Preloaded into a process: ends it by SIGKILL in the middle of the chosen change to the disk.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/types.h>
#include <unistd.h>

static atomic_long count;
static atomic_long deadly = -1;

// From now on changes are counted from 1; the one of this number is the last.
void deadly_arm(long number) {
  count = 0;
  deadly = number;
}

long deadly_count(void) { return count; }

static int is_last(void) { return deadly >= 0 && ++count == deadly; }

static void end(void) { kill(getpid(), SIGKILL); }

#define CHANGE(result, name, parameters, arguments)                  \
  result name parameters {                                           \
    static result(*real) parameters;                                 \
    if (!real) real = (result(*) parameters)dlsym(RTLD_NEXT, #name); \
    if (is_last()) end();                                            \
    return real arguments;                                           \
  }

// Of what is written half is there.
#define WRITE(name, parameters, arguments, half)                       \
  ssize_t name parameters {                                            \
    static ssize_t(*real) parameters;                                  \
    if (!real) real = (ssize_t(*) parameters)dlsym(RTLD_NEXT, #name);  \
    if (is_last()) {                                                   \
      (void)!real half;                                                \
      end();                                                           \
    }                                                                  \
    return real arguments;                                             \
  }

WRITE(write, (int file, const void *bytes, size_t size), (file, bytes, size),
      (file, bytes, size / 2))
WRITE(pwrite, (int file, const void *bytes, size_t size, off_t at), (file, bytes, size, at),
      (file, bytes, size / 2, at))
WRITE(pwrite64, (int file, const void *bytes, size_t size, off64_t at), (file, bytes, size, at),
      (file, bytes, size / 2, at))
CHANGE(int, fsync, (int file), (file))
CHANGE(int, fdatasync, (int file), (file))
CHANGE(int, ftruncate, (int file, off_t size), (file, size))
CHANGE(int, ftruncate64, (int file, off64_t size), (file, size))
CHANGE(int, rename, (const char *from, const char *to), (from, to))
CHANGE(int, renameat, (int a, const char *from, int b, const char *to), (a, from, b, to))
CHANGE(int, link, (const char *from, const char *to), (from, to))
CHANGE(int, linkat, (int a, const char *from, int b, const char *to, int flags),
       (a, from, b, to, flags))
CHANGE(int, unlink, (const char *path), (path))
CHANGE(int, unlinkat, (int at, const char *path, int flags), (at, path, flags))
