// Preloaded, counts what is allocated: malloc and its kin, and maps of memory. For tests.
#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

extern "C" {
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* pointer, size_t size);
void* __libc_memalign(size_t alignment, size_t size);
}

namespace {

std::atomic<uint64_t> allocations{0};

template <class Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

}  // namespace

#define PALM_EXPORT extern "C" __attribute__((visibility("default")))

// By this process so far, on all threads.
PALM_EXPORT uint64_t palm_allocations() { return allocations; }

PALM_EXPORT void* malloc(size_t size) {
  ++allocations;
  return __libc_malloc(size);
}

PALM_EXPORT void* calloc(size_t count, size_t size) {
  ++allocations;
  return __libc_calloc(count, size);
}

PALM_EXPORT void* realloc(void* pointer, size_t size) {
  ++allocations;
  return __libc_realloc(pointer, size);
}

PALM_EXPORT void* memalign(size_t alignment, size_t size) {
  ++allocations;
  return __libc_memalign(alignment, size);
}

PALM_EXPORT void* aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }

PALM_EXPORT int posix_memalign(void** pointer, size_t alignment, size_t size) {
  constexpr int kNoMemory = 12;
  *pointer = memalign(alignment, size);
  return *pointer ? 0 : kNoMemory;
}

PALM_EXPORT void* mmap64(void* at, size_t size, int protection, int flags, int file, off64_t offset) {
  using Map = void* (*)(void*, size_t, int, int, int, off64_t);
  static const Map map = next<Map>("mmap64");
  ++allocations;
  return map(at, size, protection, flags, file, offset);
}

PALM_EXPORT void* mmap(void* at, size_t size, int protection, int flags, int file, off_t offset) {
  return mmap64(at, size, protection, flags, file, offset);
}
