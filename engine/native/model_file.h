#pragma once
// A .palm file up to its plans: engine/format/schema.fbs and engine/format/__init__.py have the
// layout. Nothing in it is trusted.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/arena.h"
#include "plans.h"

namespace palm {

// The plans that this engine runs; engine/format/__init__.py has both, and what they mean.
constexpr uint32_t kOldestPlanVersion = 8, kPlanVersion = 8;

// A file's bytes, all in memory while this lives.
class Pages {
 public:
  // Maps a file, which must not be changed in place meanwhile. Throws Error if it cannot be read.
  explicit Pages(const char* path);
  // A copy, or what the caller keeps, unchanged and aligned to kAlignment.
  Pages(Bytes bytes, bool borrow);
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  Bytes bytes() const { return bytes_; }
  // Lets all pages of a file go but those of `read`, which grows with the addresses; they come back
  // when they are read again.
  void release(const std::vector<Bytes>& read) const;

 private:
  std::shared_ptr<const char> memory_;
  Bytes bytes_;
  [[maybe_unused]] bool is_file_ = false;
};

// The graph's tables and the constants, of a file that is whole and of a version that is known.
struct Sections {
  // Throws Error if it is damaged or newer.
  explicit Sections(Bytes file);

  Bytes tables, data;
  bool is_encrypted;
};

// The plans behind a file's constants, inflated.
class PlansInFile {
 public:
  // Throws Error if they are damaged.
  explicit PlansInFile(const Sections& sections);

  uint32_t version() const { return version_; }  // 0: the file has none
  bool are_known() const { return version_ >= kOldestPlanVersion && version_ <= kPlanVersion; }
  // Of plans that are known; `sections` must outlive the programs. Throws Error if it is damaged.
  Plans plans() const { return Plans(section_, data_); }

 private:
  uint32_t version_ = 0;
  std::unique_ptr<char[]> inflated_;
  Bytes section_, data_;
};

// UTF-8 without a zero: neither overlong, nor half of a pair, nor beyond the last letter.
bool is_text(const std::string& text);

}  // namespace palm
