#pragma once
// The vector types of the instruction set that this file is being compiled for, all with the same
// members:
//   lanes; load/store of all lanes or, with n, of the first n (0 <= n <= lanes; a load puts 0 in
//   the others); set(x) in all lanes; fma(a, b, c) = a * b + c, rounded once where the set can;
//   max(a, b) = a > b ? a : b and min(a, b) = a < b ? a : b, so a NaN in b stays;
//   less(a, b, x, y) = a < b ? x : y; if_nan(a, x, y) = a is NaN ? x : y;
//   scale(a, n) = a * 2^n for whole -252 <= n <= 254;
//   pick(p, i, first): p[i[lane] - first] in each lane, all of them from p[0] to p[lanes - 1];
//   load_float16(p): all lanes from numbers of float16.
// registers: how many of them a kernel's sums, and what they are made of, have together.
// kHasVectors: whether several lanes are one instruction: kernels are then worth more code.
// kHasMasks: storing the first n costs no more than storing all.
// F32Half has half the lanes where half a vector costs less than a masked whole one (kHasHalf).
// Everything has internal linkage: otherwise the linker would keep one copy for all the sets, and
// an old CPU would meet new instructions. For the same reason simd.cc files use no std:: templates.
#include <cstddef>
#include <cstdint>

#define PALM_STR(x) #x
// clang-format off
#define PALM_HEADER(isa) PALM_STR(base/simd/isa.h)
// clang-format on
#include PALM_HEADER(PALM_ISA_NAME)

namespace palm {
namespace {

// As a set's own for bfloat16: kernels of both are one template.
inline F32 load(const float* p, F32*) { return F32::load(p); }
inline F32 load(const float* p, size_t n, F32*) { return F32::load(p, n); }
inline void store(F32 x, float* p) { x.store(p); }
inline void store(F32 x, float* p, size_t n) { x.store(p, n); }

}  // namespace
}  // namespace palm

#define PALM_CAT(a, b) a##_##b
#define PALM_SUFFIX(name, isa) PALM_CAT(name, isa)
// relu_f32 -> relu_f32_avx2
#define PALM_FN(name) PALM_SUFFIX(name, PALM_ISA_NAME)

#define PALM_UNROLL _Pragma("GCC unroll 32")
#define PALM_INLINE inline __attribute__((always_inline))
// Keeps a pointer in a register: GCC else spills tables of addresses.
#if defined(__wasm__)
#define PALM_PIN(pointer) static_cast<void>(pointer)
#else
#define PALM_PIN(pointer) asm("" : "+r"(pointer))
#endif
// Asks for the line at `base` + 8 * `moving` to be brought into the second cache.
#if defined(__x86_64__)
#define PALM_PREFETCH_BY_8(base, moving) \
  asm volatile("prefetcht1 (%0,%1,8)" : : "r"(base), "r"(moving))
#else
#define PALM_PREFETCH_BY_8(base, moving) \
  __builtin_prefetch(                    \
      reinterpret_cast<const void*>((base) + reinterpret_cast<uintptr_t>(moving) * 8), 0, 2)
#endif
// Keeps a loaded vector in a register: GCC else loads it again for each use.
#if defined(__x86_64__)
#define PALM_PIN_VECTOR(vector) asm("" : "+v"(vector))
#elif defined(__wasm__)
#define PALM_PIN_VECTOR(vector) static_cast<void>(vector)
#else
#define PALM_PIN_VECTOR(vector) asm("" : "+w"(vector))
#endif
