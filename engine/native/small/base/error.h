#pragma once
// In place of base/error.h where there are no exceptions. The plan was checked when the library was
// written, so what fails is either the plan, which then is not the one that was checked, or memory.
namespace palm {

enum class Fault { kModel, kShape, kUnsupported, kBackend };

}  // namespace palm

// A macro: what the message would say is not compiled.
#define fail(...) __builtin_trap()
