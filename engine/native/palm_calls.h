#pragma once
// How calls of the C interfaces fail: nothing that is thrown leaves them.
#if defined(_WIN32)
#define PALM_API __declspec(dllexport)
#endif
#include <cstdarg>
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <utility>

#include "base/error.h"
#include "palm.h"

namespace palm {

// What palm_error says from now on in this thread.
void say(const char* text);

class Bad : public std::exception {
 public:
  Bad(palm_status status, std::string text) : status_(status), text_(std::move(text)) {}
  palm_status status() const { return status_; }
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  palm_status status_;
  std::string text_;
};

// Throws Bad.
[[noreturn]] void bad(palm_status status, const char* format, ...)
    __attribute__((format(printf, 2, 3)));

inline palm_status status_of(Fault fault) {
  switch (fault) {
    case Fault::kModel: return PALM_ERROR_MODEL;
    case Fault::kShape: return PALM_ERROR_SHAPE;
    case Fault::kUnsupported: return PALM_ERROR_UNSUPPORTED;
    case Fault::kBackend: break;
  }
  return PALM_ERROR_BACKEND;
}

// What `body` throws, as a status and a text.
template <class Body>
palm_status guarded(Body body) noexcept {
  try {
    body();
    return PALM_OK;
  } catch (const Bad& error) {
    say(error.what());
    return error.status();
  } catch (const Error& error) {
    say(error.what());
    return status_of(error.fault());
  } catch (const std::bad_alloc&) {
    say("out of memory");
  } catch (const std::exception& error) {
    say(error.what());
  } catch (...) { say("an error of no kind that is known"); }
  return PALM_ERROR_BACKEND;
}

// Makes what `made` points at, or leaves NULL there.
template <class Handle, class Body>
palm_status making(Handle** made, Body body) noexcept {
  if (made) *made = nullptr;
  return guarded([&] {
    if (!made) bad(PALM_ERROR_ARGUMENT, "expected where to put what is made, got NULL");
    *made = new Handle{body()};
  });
}

}  // namespace palm
