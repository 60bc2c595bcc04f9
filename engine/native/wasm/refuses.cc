// For tests: what throws ends in the host, which says so.
#include "wasm/platform.h"

extern "C" __attribute__((import_module("palm"), import_name("refuses"))) int32_t
palm_host_refuses(void (*body)(void*), void* data);

namespace palm::wasm {

bool refuses(void (*body)(void* data), void* data) { return palm_host_refuses(body, data); }

}  // namespace palm::wasm

extern "C" __attribute__((export_name("palm_call"))) void palm_call(void (*body)(void*),
                                                                     void* data) {
  body(data);
}
