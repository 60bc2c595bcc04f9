#include "base/error.h"

#include <cstdarg>
#include <cstdio>

namespace palm {

void fail(Fault fault, const char* format, ...) {
  char text[512];
  va_list args;
  va_start(args, format);
  std::vsnprintf(text, sizeof text, format, args);
  va_end(args);
  throw Error(fault, text);
}

}  // namespace palm
