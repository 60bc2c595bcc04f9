// The kits as a WebAssembly module, which kits/web drives: networks are run by the host, and the
// structs lie as its constants say.
#include <cstddef>
#include <typeinfo>

#include "base/format.h"
#include "calls.h"
#include "palm_kits.h"
#include "wasm/platform.h"

#define PALM_EXPORT(name) extern "C" __attribute__((export_name(#name)))

static_assert(sizeof(palm_kits_image) == 28 && sizeof(palm_kits_frame) == 16);
static_assert(sizeof(palm_kits_network) == 16 && sizeof(palm_kits_tensor) == 16);
static_assert(sizeof(palm_kits_mask) == 16 && sizeof(palm_kits_list) == 8);
static_assert(sizeof(palm_kits_face) == 72 && offsetof(palm_kits_face, id) == 64);
static_assert(sizeof(palm_kits_mesh) == 7720 && offsetof(palm_kits_mesh, visibility) == 5808);
static_assert(sizeof(palm_kits_hand) == 296 && offsetof(palm_kits_hand, right) == 272 &&
              offsetof(palm_kits_hand, id) == 288);
static_assert(sizeof(palm_kits_look) == 56 && offsetof(palm_kits_look, lipstick) == 8 &&
              offsetof(palm_kits_look, hair) == 24 && offsetof(palm_kits_look, face) == 40);
static_assert(sizeof(palm_kits_effect) == 16 && offsetof(palm_kits_effect, finish) == 4 &&
              offsetof(palm_kits_effect, opacity) == 8);
static_assert(sizeof(palm_kits_canvas) == 20 && sizeof(palm_kits_try_on_networks) == 20);
static_assert(sizeof(palm_kits_options) == 72 && offsetof(palm_kits_options, min_score) == 16 &&
              offsetof(palm_kits_options, detector_size) == 40 &&
              offsetof(palm_kits_options, hold_ms) == 64);

namespace palm::wasm {

Thrown describe(void* thrown, const void* type) {
  if (*static_cast<const std::type_info*>(type) == typeid(palm_kits::Bad)) {
    const auto& error = *static_cast<const palm_kits::Bad*>(thrown);
    return {error.status(), error.what()};
  }
  return {PALM_KITS_ERROR_BACKEND, "an error of no kind that is known"};
}

}  // namespace palm::wasm

// In place of the C library's, which takes 15 KB: what messages use of it.
extern "C" int vsnprintf(char* to, size_t size, const char* format, va_list args) {
  return palm::format_text(to, size, format, args);
}

// Runs the network that `user` says.
extern "C" __attribute__((import_module("palm"), import_name("network"))) int32_t
palm_host_network(void* user, const palm_kits_tensor* inputs, size_t input_count,
                  const palm_kits_tensor* outputs, size_t output_count);

// The function for palm_kits_network.
PALM_EXPORT(palm_host_run) palm_kits_run palm_host_run() {
  return [](void* user, const palm_kits_tensor* inputs, size_t input_count,
            const palm_kits_tensor* outputs, size_t output_count) {
    return palm_host_network(user, inputs, input_count, outputs, output_count);
  };
}

// The options that the kits begin with: of faces, meshes, hands and masks.
PALM_EXPORT(palm_host_options) const palm_kits_options* palm_host_options(int32_t kit) {
  static const palm_kits_options options[] = {PALM_KITS_FACES, PALM_KITS_MESHES, PALM_KITS_HANDS,
                                              PALM_KITS_MASKS};
  return options + kit;
}
