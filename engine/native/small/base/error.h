#pragma once
// In place of base/error.h where there are no exceptions. The plan was checked when the library was
// written: what fails is memory that there is none of.
namespace palm {

enum class Fault { kModel, kShape, kUnsupported, kBackend };

template <class... T>
char unevaluated(const T&... what);

}  // namespace palm

// A macro: what the message would say is not computed.
#define fail(...) (static_cast<void>(sizeof(::palm::unevaluated(__VA_ARGS__))), __builtin_trap())
