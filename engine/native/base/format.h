#pragma once
#include <cstdarg>
#include <cstdio>

namespace palm {

// As std::vsnprintf.
#if defined(__wasm__)
int format_text(char* to, size_t size, const char* format, va_list args);
#else
inline int format_text(char* to, size_t size, const char* format, va_list args) {
  return std::vsnprintf(to, size, format, args);
}
#endif

}  // namespace palm
