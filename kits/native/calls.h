#pragma once
// How calls of palm_kits.h fail: nothing that is thrown leaves them. And what they check.
#include <cmath>
#include <exception>
#include <new>
#include <string>
#include <utility>

#include "crop.h"
#include "image.h"
#include "palm_kits.h"
#include "steady.h"

#if defined(__GNUC__)
#define PALM_KITS_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define PALM_KITS_PRINTF(text, first)
#endif

namespace palm_kits {

// What palm_kits_error says from now on in this thread.
void say(const char* text);

class Bad : public std::exception {
 public:
  Bad(palm_kits_status status, std::string text) : status_(status), text_(std::move(text)) {}
  palm_kits_status status() const { return status_; }
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  palm_kits_status status_;
  std::string text_;
};

// Throws Bad.
[[noreturn]] void bad(palm_kits_status status, const char* format, ...) PALM_KITS_PRINTF(2, 3);
// An argument that no call may have.
[[noreturn]] void refuse(const char* format, ...) PALM_KITS_PRINTF(1, 2);

// What `body` throws, as a status and a text.
template <class Body>
palm_kits_status guarded(Body body) noexcept {
  try {
    body();
    return PALM_KITS_OK;
  } catch (const Bad& error) {
    say(error.what());
    return error.status();
  } catch (const std::bad_alloc&) { say("out of memory"); } catch (const std::exception& error) {
    say(error.what());
  } catch (...) { say("an error of no kind that is known"); }
  return PALM_KITS_ERROR_BACKEND;
}

// Makes what `made` points at, or leaves NULL there.
template <class Handle, class Body>
palm_kits_status making(Handle** made, Body body) noexcept {
  if (made) *made = nullptr;
  return guarded([&] {
    if (!made) refuse("expected where to put what is made, got NULL");
    *made = new Handle{body()};
  });
}

template <class T>
T* given(T* pointer, const char* what) {
  if (!pointer) refuse("%s: expected an address, got NULL", what);
  return pointer;
}

// The same where `count` is not 0.
template <class T>
T* given(T* pointer, size_t count, const char* what) {
  return count ? given(pointer, what) : pointer;
}

double between(double value, double least, double most, const char* what);
double above_zero(double value, const char* what);
double finite(double value, const char* what);
void all_finite(const float* values, size_t count, const char* what);

// A picture as rows of RGB: the caller's own where they are that already.
class Pixels {
 public:
  explicit Pixels(const palm_kits_image* image, const char* what = "image");
  View view() const { return view_; }

 private:
  View view_;
  Picture kept_;
};

// The pixels that a part touches; of NULL all. Refuses one outside of the picture.
Box clipped(const palm_kits_part* part, View image);
inline View part_of(View image, const Box& box) {
  return image.part(box.left, box.top, box.right, box.bottom);
}

void check(const palm_kits_input* input);
// Writes a picture into an input of its size.
void put(View picture, const palm_kits_input& input);

Crop crop_of(const palm_kits_crop* crop);
Similarity motion_of(const palm_kits_motion* motion);
Rows<float, 1> mask_of(const palm_kits_mask* mask, View image, const char* what);
// Refuses to write more than there is room for.
void put_count(palm_kits_list& list, size_t count, const char* what);

}  // namespace palm_kits
