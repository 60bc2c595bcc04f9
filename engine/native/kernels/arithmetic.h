#pragma once
// Operations on single numbers of any type, as numpy has them: integers wrap round, a NaN wins.
#include <cmath>
#include <cstdint>
#include <type_traits>

namespace palm {

template <class T>
constexpr bool kIsFloat = std::is_floating_point_v<T>;

// Of a type in which wrapping round is defined and no narrow type is promoted to a signed one.
template <class T>
uint64_t bits(T v) {
  return static_cast<uint64_t>(v);
}

template <class T>
bool is_nan([[maybe_unused]] T v) {
  if constexpr (kIsFloat<T>) return v != v;
  else return false;
}

struct Add {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (kIsFloat<T>) return a + b;
    else return static_cast<T>(bits(a) + bits(b));
  }
};

struct Sub {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (kIsFloat<T>) return a - b;
    else return static_cast<T>(bits(a) - bits(b));
  }
};

struct Mul {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (kIsFloat<T>) return a * b;
    else return static_cast<T>(bits(a) * bits(b));
  }
};

// Of integers towards zero; by zero it is 0.
struct Div {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (kIsFloat<T>) return a / b;
    else if (b == 0) return 0;
    else if (std::is_signed_v<T> && b == static_cast<T>(-1)) return Sub()(T{0}, a);
    else return static_cast<T>(a / b);
  }
};

struct Max {
  template <class T>
  T operator()(T a, T b) const {
    return is_nan(a) || a > b ? a : b;
  }
};

struct Min {
  template <class T>
  T operator()(T a, T b) const {
    return is_nan(a) || a < b ? a : b;
  }
};

// The sign of a, as C's % and fmod.
struct Fmod {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (kIsFloat<T>) return std::fmod(a, b);
    else if (b == 0 || (std::is_signed_v<T> && b == static_cast<T>(-1))) return 0;
    else return static_cast<T>(a % b);
  }
};

// The sign of b, as Python's %.
struct Mod {
  template <class T>
  T operator()(T a, T b) const {
    const T rest = Fmod()(a, b);
    return rest != 0 && (rest < 0) != (b < 0) ? static_cast<T>(rest + b) : rest;
  }
};

}  // namespace palm
