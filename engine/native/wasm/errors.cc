// What the runtime throws, as statuses of palm.h. Compiled with type information.
#include <exception>
#include <typeinfo>

#include "palm_calls.h"
#include "wasm/platform.h"

namespace palm::wasm {

Thrown describe(void* thrown, const void* type) {
  const auto& kind = *static_cast<const std::type_info*>(type);
  if (kind == typeid(Error)) {
    const auto& error = *static_cast<const Error*>(thrown);
    return {status_of(error.fault()), error.what()};
  }
  if (kind == typeid(Bad)) {
    const auto& error = *static_cast<const Bad*>(thrown);
    return {error.status(), error.what()};
  }
  return {PALM_ERROR_BACKEND, "an error of no kind that is known"};
}

}  // namespace palm::wasm
