#pragma once
// What of the kernels a library needs: a runtime of any model needs all of it. A library of one
// model, or a runtime of some, has a file like this, which engine/backends/cpu/c_library/ writes.
#include <cstddef>
#include <string_view>

namespace palm {

// Whether size counts for more than some per cent of speed: tiles then have few heights.
constexpr bool kIsSmall = false;

constexpr bool kNeedsGates = true;      // of 1x1 convolutions
constexpr bool kNeedsFunctions = true;  // as activations, beyond those that clamp
constexpr bool kNeedsBf16 = true;       // for products of float32
// Of an algorithm of convolution: "gemm" suits every shape, and is always there.
constexpr bool needs_way(std::string_view /*algorithm*/) { return true; }
// Of a function of kernels/unary/ops.inc, also as an activation, and of pow.
constexpr bool needs_function(std::string_view /*name*/) { return true; }
constexpr bool needs_depthwise(size_t /*kernel_width*/, size_t /*stride*/) { return true; }

}  // namespace palm
