#include "base/arena.h"

#include <algorithm>
#include <cstdlib>
#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "base/error.h"

namespace palm {
namespace {

constexpr size_t kHugePage = 2 << 20;
thread_local CommonArena* current = nullptr;

// From about here on zeroing a huge page is faster than touching the small ones for the first time.
constexpr size_t kLarge = 256 << 10;

// The part of a large run of bytes that is worth being huge pages.
size_t huge_part(size_t bytes) {
  const size_t rest = bytes % kHugePage;
  return bytes - rest + (rest < kLarge ? 0 : kHugePage);
}

std::shared_ptr<char> get(size_t bytes) {
  const size_t huge = huge_part(bytes);
  void* data;
  // aligned_alloc would want a multiple of the alignment.
  if (posix_memalign(&data, huge ? kHugePage : kAlignment, std::max(bytes, huge)))
    fail(Fault::kBackend, "out of memory: could not get %zu bytes", bytes);
#if defined(MADV_HUGEPAGE)
  if (huge) madvise(data, huge, MADV_HUGEPAGE);
#endif
  return {static_cast<char*>(data), std::free};
}

}  // namespace

Arena::Arena() = default;
Arena::Arena(Arena&& other) noexcept = default;
Arena& Arena::operator=(Arena&& other) noexcept = default;
Arena::~Arena() = default;

Arena::Arena(size_t bytes) {
  bytes = round_up(bytes + 1);
  data_ = current ? current->take(bytes) : get(bytes);
}

CommonArena::CommonArena(size_t bytes)
    : piece_bytes_(std::max(round_up(bytes), huge_part(bytes))), before_(current) {
  current = bytes < kLarge ? nullptr : this;
}

CommonArena::~CommonArena() { current = before_; }

std::shared_ptr<char> CommonArena::take(size_t bytes) {
  if (bytes >= kHugePage) return get(bytes);
  if (!piece_ || bytes > piece_bytes_ - used_) {
    piece_ = get(piece_bytes_);
    used_ = 0;
  }
  const std::shared_ptr<char> data(piece_, piece_.get() + used_);
  used_ += bytes;
  return data;
}

}  // namespace palm
