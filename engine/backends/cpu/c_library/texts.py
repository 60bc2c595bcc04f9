"""The texts of a C library that are not copied: headers, tables, the build."""

from __future__ import annotations

from string import Template

WAYS = Template("""\
// The ways of convolving that this library has.
#include "kernels/conv/conv.h"

namespace palm {

PALM_OPERANDS(conv, kConvOperands)
StepPtr make_conv(const Node& node) {
  const ConvShape shape(node);
  const std::string way = node.attrs.text("algorithm");
$ways  fail();
}

}  // namespace palm
""")
NEEDS = Template("""\
#pragma once
// What this library needs of the kernels.
#include <cstddef>
#include <string_view>

namespace palm {

constexpr bool kIsSmall = true;
constexpr bool kNeedsGates = $gates;
constexpr bool kNeedsFunctions = $functions;
constexpr bool kNeedsBf16 = false;
constexpr bool needs_way([[maybe_unused]] std::string_view algorithm) {
  return $ways;
}
constexpr bool needs_function([[maybe_unused]] std::string_view name) {
  return $named;
}
constexpr bool needs_depthwise([[maybe_unused]] size_t kernel_width,
                               [[maybe_unused]] size_t stride) {
  return $blocks;
}

}  // namespace palm
""")
# What a header and a model's source say of threads, where the library has none and where it has.
ALONE = {"threads": "void", "told": "", "or_threads": "", "count": "1", "check": ""}
SHARED = {
    "threads": "int threads",
    "told": "threads: that share in\n * runs, 1 to 256; 1 starts none. ",
    "or_threads": ", or\n * threads are not 1 to 256",
    "count": "threads",
    "check": "  if (threads < 1 || threads > 256) return 1;\n",
}
HEADER = Template("""\
/* $name, a model as a library. One caller at a time may start, run or stop it. */
#ifndef $guard
#define $guard

#ifdef __cplusplus
extern "C" {
#endif
#include <stdint.h>

/* Dense arrays, row-major. No output may overlap another, or an input. */
typedef struct ${name}_inputs {
$inputs
} ${name}_inputs;
typedef struct ${name}_outputs {
$outputs
} ${name}_outputs;

/* Takes memory for packed weights, once; nothing takes memory after it. ${told}Returns 0, or 1 if
 * this machine lacks the instruction set that the library is for$or_threads. */
int ${name}_start($threads);
int ${name}_is_started(void);
/* Runs the model, which was started. */
void ${name}_run(const ${name}_inputs *inputs, const ${name}_outputs *outputs);
/* Gives the memory back. */
void ${name}_stop(void);

#ifdef __cplusplus
}
#endif
#endif
""")
MODEL = Template("""\
#include "$name.h"

#include "base/cpu.h"
#include "small/program.h"

namespace palm {
$makes
}  // namespace palm

namespace {

const int32_t numbers[] = {
$numbers
};
const palm::TensorEntry tensors[] = {
$tensors
};
const int16_t operands[] = {
$operands
};
const int64_t integers[] = {
$integers
};
const double doubles[] = {
$doubles
};
const char texts[] =
$texts;
const palm::Make kernels[] = {
$kernels
};
const uint32_t offsets[] = {
$offsets
};
alignas(palm::kAlignment) const uint32_t weights[] = {
$weights
};
alignas(palm::kAlignment) char arena[$arena_bytes];

$programs
palm::Program program;

}  // namespace

extern "C" {

int ${name}_start($threads) {
  if (program.is_started()) return 0;
$check  for (const palm::Model& model : {$models})
    if (program.start(model, $count)) return 0;
  return 1;
}

int ${name}_is_started(void) { return program.is_started(); }

void ${name}_run(const ${name}_inputs* inputs, const ${name}_outputs* outputs) {
  program.run(reinterpret_cast<const void* const*>(inputs),
              reinterpret_cast<void* const*>(outputs));
}

void ${name}_stop(void) { program.stop(); }

}  // extern "C"
""")
# The steps for an instruction set.
PROGRAM = Template("""\
const palm::StepEntry steps_of_$isa[] = {
$steps
};
const palm::AttrEntry attrs_of_$isa[] = {
$attrs
};
palm::Model model_of_$isa() {
  return {tensors, sizeof tensors / sizeof *tensors, numbers, steps_of_$isa,
          sizeof steps_of_$isa / sizeof *steps_of_$isa, operands, attrs_of_$isa,
          {texts, integers, doubles}, kernels, reinterpret_cast<const char*>(weights), offsets,
          arena, $needs};
}
""")
_SETS = """\

# Files that are compiled for an instruction set.
function(palm_set name flags)
  separate_arguments(flags UNIX_COMMAND "$${flags}")
  add_library($${PROJECT_NAME}_$${name} OBJECT $${ARGN})
  target_compile_definitions($${PROJECT_NAME}_$${name} PRIVATE PALM_ISA_NAME=$${name})
  target_compile_options($${PROJECT_NAME}_$${name} PRIVATE ${without_exceptions} $${flags})
  target_sources($${PROJECT_NAME} PRIVATE $$<TARGET_OBJECTS:$${PROJECT_NAME}_$${name}>)
endfunction()
$sets"""
_HEAD = """\
cmake_minimum_required(VERSION 3.18)
project($name CXX)
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE MinSizeRel)
endif()
include_directories(. palm)
add_compile_options(${without_all}-fvisibility=hidden -ffunction-sections -fdata-sections)
# What follows sums of bytes is rounded after each operation, on every machine.
file(GLOB of_bytes RELATIVE $${CMAKE_CURRENT_SOURCE_DIR} palm/kernels/*_int8/*.cc)
set_source_files_properties($${of_bytes} PROPERTIES COMPILE_OPTIONS -ffp-contract=off)
"""
_NO_EXCEPTIONS = "-fno-exceptions -fno-asynchronous-unwind-tables -fno-unwind-tables"
_NO_TYPES = "-fno-rtti -fno-threadsafe-statics"
BUILD = Template(
    _HEAD.replace("${without_all}", f"{_NO_EXCEPTIONS}\n                    {_NO_TYPES} ")
    + """\

add_library($name$sources)
target_include_directories($name PUBLIC .)
$threads"""
    + _SETS.replace("${without_exceptions} ", "")
)
THREADS = Template("""\
find_package(Threads REQUIRED)
target_link_libraries($name PUBLIC Threads::Threads)
""")
# What palm.h has, but palm_open: there are no files. A session's threads are the host's.
_CALLS = " ".join(
    f"palm_{each}"
    for each in (
        *("version", "error", "isa_count", "isa_name", "dtype_name", "dtype_size", "open_bytes"),
        *("model_free", "model_input_count", "model_output_count", "model_input", "model_output"),
        *("model_metadata_count", "model_metadata_key", "model_metadata_value"),
        *("model_plan_count", "model_plan_dims"),
        *("value_name", "value_dtype", "value_rank", "value_dims", "value_dim_name", "value_size"),
        *("program_create", "program_free", "program_input_count", "program_output_count"),
        *("program_input", "program_output", "program_step_count", "program_step_node"),
        *("program_step_kernel", "session_create", "session_free", "run", "profile"),
    )
)
MODULES = Template(
    _HEAD.replace("$name", "palm").replace(
        "${without_all}", "-fno-rtti -Xclang -fignore-exceptions "
    )
    + """\
# Configure it with -DCMAKE_TOOLCHAIN_FILE=zig.cmake -DCMAKE_SYSTEM_NAME=WASI
# -DPALM_TARGET=wasm32-wasi -DPALM_ZIG=path/to/zig
set(CMAKE_POSITION_INDEPENDENT_CODE OFF)
include_directories(BEFORE palm/wasm/std)
set(sources$sources)
set(of_sets $${sources})
list(FILTER of_sets INCLUDE REGEX "/(simd|int8)\\.cc$$")
set_property(SOURCE $${of_sets} APPEND PROPERTY COMPILE_OPTIONS -O3)
set_property(SOURCE palm/wasm/errors.cc APPEND PROPERTY COMPILE_OPTIONS -frtti)
set(exports __stack_pointer $calls)
list(TRANSFORM exports PREPEND -Wl,--export=)

# palm_<isa>.wasm, which has a memory, and palm_<isa>_threads.wasm, which wants one that is shared.
function(palm_module isa flags)
  foreach(module palm_$${isa} palm_$${isa}_threads)
    set(options $${flags})
    set(linked)
    if(module MATCHES "_threads$$")
      string(APPEND options "+atomics")
      set(linked -Wl,--import-memory,--shared-memory,--max-memory=1073741824
          -Wl,--export=__wasm_init_tls,--export=__tls_size)
    endif()
    add_executable($${module} $${sources})
    target_compile_definitions($${module} PRIVATE PALM_ISA_NAME=$${isa})
    target_compile_options($${module} PRIVATE $${options})
    target_link_options($${module} PRIVATE $${options} -mexec-model=reactor -s
                        -Wl,--gc-sections,-z,stack-size=524288 $${exports} $${linked})
    set_target_properties($${module} PROPERTIES SUFFIX .wasm)
  endforeach()
endfunction()
$modules""".replace("$calls", _CALLS)
)
RUNTIME = Template(
    _HEAD.replace("${without_all}", "-fno-rtti ")
    + """\

option(BUILD_SHARED_LIBS "a shared library" ON)
add_library($name$sources)
target_include_directories($name PUBLIC .)
${threads}set_target_properties($name PROPERTIES PUBLIC_HEADER palm.h)
include(CheckIPOSupported)
check_ipo_supported(RESULT can_optimise_whole OUTPUT why LANGUAGES CXX)
if(can_optimise_whole AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set_target_properties($name PROPERTIES INTERPROCEDURAL_OPTIMIZATION ON)
endif()
if(CMAKE_SYSTEM_NAME MATCHES "Linux|Android" AND BUILD_SHARED_LIBS)
  # Nothing but palm.h is seen from outside.
  target_link_options($name PRIVATE -Wl,--gc-sections -Wl,-z,defs -Wl,-z,noseparate-code
    -Wl,--version-script=$${CMAKE_CURRENT_SOURCE_DIR}/palm/palm.map)
endif()
include(GNUInstallDirs)
install(TARGETS $name)
"""
    + _SETS.replace("${without_exceptions}", _NO_EXCEPTIONS)
)
