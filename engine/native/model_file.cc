#include "model_file.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/crc32.h"
#include "base/error.h"
#include "entropy/inflate.h"

#if defined(__unix__) || defined(__APPLE__)
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#define PALM_MAPS_FILES 1
#endif

namespace palm {
namespace {

constexpr uint32_t kVersion = 1;
constexpr size_t kTrailer = 24, kPlanFooter = 24, kChecksum = 4;
constexpr uint64_t kMostInflated = 1 << 28, kMostTimes = 1100;
constexpr char kIdentifier[] = "PALM", kPlanMark[] = "PALMPLAN", kLockMark[] = "PALMLOCK";
constexpr size_t kMark = sizeof kPlanMark - 1;

template <class T>
T number_at(Bytes bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data + offset, sizeof value);
  return value;
}

[[noreturn]] void unreadable(const char* why) { fail(Fault::kModel, "cannot be read: %s", why); }

#if PALM_MAPS_FILES

// Closes a file that is open.
struct Opened {
  explicit Opened(const char* path) : descriptor(-1) {
    struct stat found;
    // Nothing else is opened: a pipe would be waited for, and a device may do anything.
    if (stat(path, &found)) unreadable(std::strerror(errno));
    if (!S_ISREG(found.st_mode)) unreadable("not a file");
    descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) unreadable(std::strerror(errno));
  }
  ~Opened() { close(descriptor); }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;
  int descriptor;
};

std::shared_ptr<const char> map(const char* path, size_t& size) {
  const Opened file(path);
  struct stat found;
  if (fstat(file.descriptor, &found)) unreadable(std::strerror(errno));
  if (!S_ISREG(found.st_mode)) unreadable("not a file");
  if (static_cast<uintmax_t>(found.st_size) > SIZE_MAX / 2) unreadable("it is too large");
  size = static_cast<size_t>(found.st_size);
  if (!size) fail(Fault::kModel, "not a model file: it is empty");
  int flags = MAP_SHARED;
#if defined(MAP_POPULATE)
  // The checksum reads all of it: one call for its pages, not a fault for each few.
  flags |= MAP_POPULATE;
#endif
  void* const begin = mmap(nullptr, size, PROT_READ, flags, file.descriptor, 0);
  if (begin == MAP_FAILED) unreadable(std::strerror(errno));
  return {static_cast<const char*>(begin),
          [begin, size](const char*) { munmap(begin, size); }};
}

#else

struct Closes {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

std::shared_ptr<const char> map(const char* path, size_t& size) {
  const std::unique_ptr<std::FILE, Closes> file(std::fopen(path, "rb"));
  if (!file) unreadable(std::strerror(errno));
  long end = -1;
  if (!std::fseek(file.get(), 0, SEEK_END)) end = std::ftell(file.get());
  if (end < 0 || std::fseek(file.get(), 0, SEEK_SET)) unreadable(std::strerror(errno));
  size = static_cast<size_t>(end);
  if (!size) fail(Fault::kModel, "not a model file: it is empty");
  auto memory = std::make_shared<Arena>(size);
  if (std::fread(memory->data(), 1, size, file.get()) != size) unreadable("it is cut short");
  return {memory, memory->data()};
}

#endif

}  // namespace

Pages::Pages(const char* path) {
  size_t size = 0;
  memory_ = map(path, size);
  bytes_ = {memory_.get(), size};
#if PALM_MAPS_FILES
  is_file_ = true;
#endif
}

Pages::Pages(Bytes bytes, bool borrow) : bytes_(bytes) {
  if (!bytes.size) fail(Fault::kModel, "not a model file: it is empty");
  if (borrow) {
    if (reinterpret_cast<uintptr_t>(bytes.data) % kAlignment)
      fail(Fault::kModel, "expected bytes at a multiple of %zu, got %p", kAlignment,
           static_cast<const void*>(bytes.data));
    return;
  }
  auto copy = std::make_shared<Arena>(bytes.size);
  std::memcpy(copy->data(), bytes.data, bytes.size);
  bytes_.data = copy->data();
  memory_ = {copy, copy->data()};
}

void Pages::release(const std::vector<Bytes>& read) const {
#if PALM_MAPS_FILES && defined(MADV_DONTNEED)
  if (!is_file_) return;
  // What lies less than that apart is let go in one piece with what is between, or not at all.
  constexpr size_t kApart = 64 << 10;
  static const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  size_t begin = 0;
  const auto let_go = [&](size_t end) {
    if (end > begin) madvise(const_cast<char*>(bytes_.data) + begin, end - begin, MADV_DONTNEED);
  };
  bool is_first = true;
  for (const Bytes& each : read) {
    const auto offset = static_cast<size_t>(each.data - bytes_.data);
    if (each.data < bytes_.data || offset >= bytes_.size) continue;
    if (is_first || offset > begin + kApart) let_go(offset / page * page);
    is_first = false;
    begin = std::max(begin, (offset + each.size + page - 1) / page * page);
  }
  let_go(bytes_.size);
#else
  (void)read;
#endif
}

Sections::Sections(Bytes file) {
  if (file.size < 8 || std::memcmp(file.data + 4, kIdentifier, 4))
    fail(Fault::kModel, "not a model file: the identifier PALM is missing");
  if (file.size < kTrailer + 8)
    fail(Fault::kModel, "damaged: %zu bytes are too few", file.size);
  const size_t trailer = file.size - kTrailer;
  const auto graph_size = number_at<uint64_t>(file, trailer);
  const auto version = number_at<uint32_t>(file, trailer + 16);
  const auto checksum = number_at<uint32_t>(file, trailer + 20);
  if (number_at<uint64_t>(file, trailer + 8) != file.size ||
      checksum != crc32(file.data, file.size - kChecksum))
    fail(Fault::kModel, "damaged or cut short: the checksum does not fit");
  if (version > kVersion) {
    fail(Fault::kModel,
         "the file is of a newer format: upgrade palmkit, which knows version %u; the file's "
         "version: %u",
         kVersion, version);
  }
  if (version < 1 || graph_size > trailer || round_up(static_cast<size_t>(graph_size)) > trailer)
    fail(Fault::kModel, "damaged: the trailer does not fit");
  const size_t begin = round_up(static_cast<size_t>(graph_size));
  tables = {file.data, static_cast<size_t>(graph_size)};
  data = {file.data + begin, trailer - begin};
  is_encrypted =
      data.size >= kPlanFooter && !std::memcmp(data.data + data.size - kPlanFooter, kLockMark, kMark);
}

PlansInFile::PlansInFile(const Sections& sections) : data_(sections.data) {
  if (data_.size < kPlanFooter) return;
  const size_t footer = data_.size - kPlanFooter;
  if (std::memcmp(data_.data + footer, kPlanMark, kMark)) return;
  const auto size = number_at<uint64_t>(data_, footer + 8);
  version_ = number_at<uint32_t>(data_, footer + 16);
  if (!are_known()) return;
  if (size > footer) fail(Fault::kModel, "damaged: the plans do not fit");
  const uint32_t inflated_size = number_at<uint32_t>(data_, footer + 20);
  data_.size = footer - static_cast<size_t>(size);
  section_ = {data_.data + data_.size, static_cast<size_t>(size)};
  if (!inflated_size) return;
  if (inflated_size > std::min(kMostInflated, kMostTimes * size))
    fail(Fault::kModel, "damaged: %zu bytes do not hold %u", section_.size, inflated_size);
  inflated_ = inflate(section_, inflated_size);
  section_ = {inflated_.get(), inflated_size};
}

bool is_text(const std::string& text) {
  const auto at = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  for (size_t i = 0; i < text.size();) {
    const unsigned first = at(i++);
    if (!first) return false;
    if (first < 0x80) continue;
    const size_t more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
    if (first < 0xc2 || first > 0xf4 || text.size() - i < more) return false;
    const unsigned second = at(i);
    if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
        (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f))
      return false;
    for (size_t end = i + more; i < end; ++i)
      if ((at(i) & 0xc0) != 0x80) return false;
  }
  return true;
}

}  // namespace palm
