#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

namespace palm {

constexpr size_t kAlignment = 64;

// `bytes` rounded up to whole cache lines.
inline size_t round_up(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// Uninitialised memory that begins on a cache line; throws Error if there is none. What is
// large lies in huge pages where the system has them: weights that are read once a run are read up
// to twice as fast, and the first touch of a page costs as much as computing with it.
class Arena {
 public:
  Arena();
  explicit Arena(size_t bytes);
  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&& other) noexcept;
  ~Arena();
  char* data() const { return data_.get(); }
  float* floats() const { return reinterpret_cast<float*>(data_.get()); }

 private:
  std::shared_ptr<char> data_;
};

// While it lives, the small Arenas that its thread makes lie side by side in large pieces of
// memory; a piece lives as long as any Arena in it. For those that are of about `bytes` in all.
class CommonArena {
 public:
  explicit CommonArena(size_t bytes);
  ~CommonArena();
  CommonArena(const CommonArena&) = delete;
  CommonArena& operator=(const CommonArena&) = delete;

 private:
  friend class Arena;

  std::shared_ptr<char> take(size_t bytes);

  std::shared_ptr<char> piece_;
  size_t piece_bytes_, used_ = 0;
  CommonArena* const before_;
};

}  // namespace palm
