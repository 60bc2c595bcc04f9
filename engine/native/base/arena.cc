#include "base/arena.h"

#include <cstdlib>
#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "base/error.h"

namespace palm {
namespace {

constexpr size_t kHugePage = 2 << 20;
thread_local CommonArena* current = nullptr;

std::shared_ptr<char> get(size_t bytes) {
  const bool large = bytes >= kHugePage;
  void* const data = std::aligned_alloc(large ? kHugePage : kAlignment, bytes);
  if (!data) fail(Fault::kBackend, "out of memory: could not get %zu bytes", bytes);
#if defined(MADV_HUGEPAGE)
  if (large) madvise(data, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
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

CommonArena::CommonArena(size_t bytes) : piece_bytes_(round_up(bytes)), before_(current) {
  current = bytes < kHugePage ? nullptr : this;
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
