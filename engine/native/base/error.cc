#include "base/error.h"

#include "base/format.h"

namespace palm {

void fail(Fault fault, const char* format, ...) {
  char text[512];
  va_list args;
  va_start(args, format);
  format_text(text, sizeof text, format, args);
  va_end(args);
  throw Error(fault, text);
}

}  // namespace palm
