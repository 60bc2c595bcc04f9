#include "base/arena.h"

#include <algorithm>
#include <cstdlib>
#if defined(_WIN32)
#include <malloc.h>
#elif defined(__linux__)
#include <sys/mman.h>
#endif

#include "base/error.h"

namespace palm {
namespace {

constexpr size_t kHugePage = 2 << 20;
thread_local Region* current = nullptr;

// From about here on zeroing a huge page is faster than touching the small ones for the first time.
constexpr size_t kLarge = 256 << 10;
// The same for the last page of a region, where memory counts for as much as 0.1 ms.
[[maybe_unused]] constexpr size_t kLargeRest = 512 << 10;

// The part of a large run of bytes that is worth being huge pages.
[[maybe_unused]] size_t huge_part(size_t bytes) {
  const size_t rest = bytes % kHugePage;
  return bytes - rest + (rest < kLarge ? 0 : kHugePage);
}

std::shared_ptr<char> get(size_t bytes) {
#if defined(_WIN32)
  void* const data = _aligned_malloc(bytes, kAlignment);
  if (!data) fail(Fault::kBackend, "out of memory: could not get %zu bytes", bytes);
  return {static_cast<char*>(data), _aligned_free};
#else
  const size_t huge = huge_part(bytes);
  void* data;
  // aligned_alloc would want a multiple of the alignment.
  if (posix_memalign(&data, huge ? kHugePage : kAlignment, std::max(bytes, huge)))
    fail(Fault::kBackend, "out of memory: could not get %zu bytes", bytes);
#if defined(MADV_HUGEPAGE)
  if (huge) madvise(data, huge, MADV_HUGEPAGE);
#endif
  return {static_cast<char*>(data), std::free};
#endif
}

// Addresses for so many bytes, in huge pages; null if there are none.
std::shared_ptr<char> reserve(size_t bytes) {
#if defined(MADV_HUGEPAGE)
  const size_t all = bytes + kHugePage;
  void* const begin = mmap(nullptr, all, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (begin == MAP_FAILED) return nullptr;
  const size_t skipped = -reinterpret_cast<uintptr_t>(begin) % kHugePage;
  char* const data = static_cast<char*>(begin) + skipped;
  madvise(data, bytes, MADV_HUGEPAGE);
  return {data, [begin, all](char*) { munmap(begin, all); }};
#else
  (void)bytes;
  return nullptr;
#endif
}

}  // namespace

Arena::Arena() = default;
Arena::Arena(Arena&& other) noexcept = default;
Arena& Arena::operator=(Arena&& other) noexcept = default;
Arena::~Arena() = default;

Arena::Arena(size_t bytes) {
  size_ = bytes;
  bytes = round_up(bytes + 1);
  data_ = current ? current->take(bytes) : get(bytes);
}

Arena::Arena(Region& region, size_t bytes)
    : data_(region.lend(round_up(bytes + 1))), size_(bytes) {}

Region::Use::Use(Region& region) : before_(current) { current = &region; }
Region::Use::~Use() { current = before_; }

Region::Region(size_t least_bytes, size_t most_bytes) {
  constexpr size_t kMost = limit(40);
  if (least_bytes < kLarge || most_bytes > kMost) return;
  bytes_ = (most_bytes + kHugePage - 1) / kHugePage * kHugePage;
  memory_ = reserve(bytes_);
  if (!memory_) bytes_ = 0;
}

std::shared_ptr<char> Region::end(size_t bytes) {
  if (bytes > bytes_ - used_) return nullptr;
  const std::shared_ptr<char> data(memory_, memory_.get() + used_);
  used_ += bytes;
  return data;
}

std::shared_ptr<char> Region::take(size_t bytes) {
  std::shared_ptr<char> data;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    data = end(bytes);
  }
  return data ? data : get(bytes);
}

std::shared_ptr<char> Region::lend(size_t bytes) {
  // No lock, which a fork could leave locked.
  if (is_lent_.exchange(true)) return get(bytes);
  if (!loan_) {
    [[maybe_unused]] const size_t used = used_;
    loan_ = end(bytes);
    loan_bytes_ = loan_ ? bytes : 0;
#if defined(MADV_NOHUGEPAGE)
    const size_t rest = used_ % kHugePage, page = used_ - rest;
    const bool is_untouched = page >= used;
    if (loan_ && is_untouched && rest < kLargeRest) {
      madvise(memory_.get() + page, bytes_ - page, MADV_NOHUGEPAGE);
#if defined(MADV_POPULATE_WRITE)
      // The first run writes nearly all of it: one call for its pages, not a fault for each.
      madvise(memory_.get() + page, rest, MADV_POPULATE_WRITE);
#endif
    }
#endif
  }
  if (bytes <= loan_bytes_) return {loan_.get(), [this](char*) { is_lent_ = false; }};
  is_lent_ = false;
  return get(bytes);
}

}  // namespace palm
