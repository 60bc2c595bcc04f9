// In place of what says on a console why the C++ library ends, which takes all of printf.
#include <__verbose_abort>

#include "wasm/platform.h"

namespace {

[[noreturn]] void end(const char* format) {
  constexpr int32_t kBackend = 4;  // PALM_ERROR_BACKEND
  palm::wasm::throw_out(kBackend, format);
}

}  // namespace

extern "C" [[noreturn]] void __abort_message(const char* format, ...) { end(format); }
void std::__libcpp_verbose_abort(const char* format, ...) noexcept { end(format); }
