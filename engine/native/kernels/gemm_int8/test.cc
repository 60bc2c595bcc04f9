// Products of every instruction set against a loop, with nothing readable behind what may be read:
// loads of tiles are not among those that sanitizers see.
#if defined(_WIN32)
#include <windows.h>
#elif !defined(__wasm__)
#include <sys/mman.h>
#endif

#include "base/check.h"
#include "kernels/gemm_int8/gemm_int8.h"

namespace {

using namespace palm;

// Whole pages of memory, of which the last `guarded` bytes cannot be read; nullptr: there are none.
#if defined(_WIN32)
char* map_pages(size_t size, size_t guarded) {
  void* const at = VirtualAlloc(nullptr, size, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
  DWORD before;
  char* const start = static_cast<char*>(at);
  return at && VirtualProtect(start + size - guarded, guarded, PAGE_NOACCESS, &before) ? start
                                                                                       : nullptr;
}
void unmap_pages(char* start, size_t) { VirtualFree(start, 0, MEM_RELEASE); }
#elif defined(__wasm__)
// Memory has no pages that cannot be read.
char* map_pages(size_t size, size_t) { return static_cast<char*>(std::calloc(size, 1)); }
void unmap_pages(char* start, size_t) { std::free(start); }
#else
char* map_pages(size_t size, size_t guarded) {
  void* const at = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return nullptr;
  char* const start = static_cast<char*>(at);
  return mprotect(start + size - guarded, guarded, PROT_NONE) == 0 ? start : nullptr;
}
void unmap_pages(char* start, size_t size) { munmap(start, size); }
#endif

// `size` bytes that end where a page begins that cannot be read.
class Guarded {
 public:
  explicit Guarded(size_t size) : mapped_((size + kPage - 1) / kPage * kPage + kPage) {
    start_ = map_pages(mapped_, kPage);
    PALM_CHECK(start_, "no memory with a guard behind it");
    end_ = start_ + mapped_ - kPage;
    data_ = end_ - size;
  }
  ~Guarded() { unmap_pages(start_, mapped_); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }

 private:
  static constexpr size_t kPage = 64 << 10;  // a multiple of every system's
  const size_t mapped_;
  char *start_, *end_, *data_;
};

void check(const char* name, const GemmInt8Kernel& kernel, Random& random) {
  const size_t m = random.between(1, 70), n = random.between(1, 70), k = random.between(1, 200);
  const size_t segments = random.between(1, 3), lda = k + random.between(0, 1) * 5;
  std::vector<int8_t> weights(n * segments * k);
  for (int8_t& w : weights) w = static_cast<int8_t>(random.bits());
  // Rows end with the last k of them, and three bytes.
  const size_t row_bytes = (m - 1) * lda + k + 3;
  const Guarded a0(row_bytes), a1(row_bytes), a2(row_bytes);
  const uint8_t* const a[] = {a0.as<uint8_t>(), a1.as<uint8_t>(), a2.as<uint8_t>()};
  for (const Guarded* each : {&a0, &a1, &a2})
    for (size_t i = 0; i < row_bytes; ++i)
      each->as<uint8_t>()[i] = static_cast<uint8_t>(random.bits());
  // Vectors of weights may be loaded whole from aligned places.
  const Guarded packed(round_up(kernel.pack(segments, k, n, nullptr, segments * k, nullptr)));
  kernel.pack(segments, k, n, weights.data(), segments * k, packed.as<char>());
  const std::vector<int32_t> bias(n + GemmInt8::kSlack, 7);
  const std::vector<float> scale(n + GemmInt8::kSlack, 1.f);
  const Guarded sums(m * n * sizeof(float));
  GemmInt8 g{m,
             n,
             k,
             segments,
             a,
             lda,
             packed.as<char>(),
             {sums.as<float>(), true},
             n,
             0,
             kernel.count_panels(n),
             {}};
  g.epilogue.bias = bias.data();
  g.epilogue.scale = scale.data();
  kernel.run(g);
  for (size_t i = 0; i < m; ++i) {
    for (size_t j = 0; j < n; ++j) {
      int32_t sum = 7;
      for (size_t p = 0; p < segments * k; ++p)
        sum += (a[p / k][i * lda + p % k] - kernel.offset()) * weights[j * segments * k + p];
      PALM_CHECK(sums.as<float>()[i * n + j] == static_cast<float>(sum),
                 "%s: %zu x %zu x %zu: c[%zu][%zu] is %g", name, m, segments * k, n, i, j,
                 static_cast<double>(sums.as<float>()[i * n + j]));
    }
  }
}

}  // namespace

int main() {
  Random random;
#define PALM_KERNEL(need, name) \
  for (int i = 0; runs_here(need) && i < 300; ++i) check(#name, find_gemm_int8(need), random);
#include "kernels/gemm_int8/kernels.inc"
#undef PALM_KERNEL
}
