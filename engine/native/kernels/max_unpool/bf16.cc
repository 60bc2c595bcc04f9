#include "kernels/max_unpool/body.h"

namespace palm {
namespace {

// Numbers that are not negative are ordered as integers.
template <>
size_t spread_whole(const Unpool<Bf16>& u, size_t at, Bf16* y, F32& inside) {
  const auto number = [](size_t n) { return Bf16s::set(narrow(static_cast<float>(n))); };
  constexpr size_t kMostPlaces = 256;
  if (u.places == 0 || u.places > kMostPlaces) return 0;
  const Bf16 end = narrow(static_cast<float>(u.places));
  const Bf16s zero = Bf16s::set({0}), last = Bf16s::set({static_cast<uint16_t>(end.bits - 1)});
  size_t c = 0;
  for (; c + Bf16s::lanes <= u.n; c += Bf16s::lanes) {
    const Bf16s x = Bf16s::load(u.x + at + c), index = Bf16s::load(u.indices + at + c);
    if (any_less(index, zero) || any_less(last, index)) inside = F32::set(0.f);
    for (size_t k = 0; k < u.columns; ++k) {
      const Bf16s above = less(index, number(u.first + k + 1), x, zero);
      less(index, number(u.first + k), zero, above).store(y + k * u.n + c);
    }
  }
  return c;
}

}  // namespace

bool PALM_FN(unpool_bf16)(const Unpool<Bf16>& unpool) { return unpool_any(unpool); }

}  // namespace palm
