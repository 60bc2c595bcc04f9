// Of vsnprintf what messages use: s with a precision, d, u, lld, zu, p, and g to three decimals. The
// C library's takes 15 KB, most of them for floats of 128 bits.
#include "base/format.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace palm {
namespace {

// As much of a text as fits.
class Text {
 public:
  Text(char* to, size_t size) : to_(to), size_(size) {}

  void add(const char* from, size_t count) {
    if (length_ < size_) std::memcpy(to_ + length_, from, std::min(count, size_ - length_));
    length_ += count;
  }
  void add(const char* from) { add(from, std::strlen(from)); }

  void number(uint64_t value, unsigned base = 10, size_t least_digits = 1) {
    char digits[20];
    char* const end = digits + sizeof digits;
    char* first = end;
    for (; value || static_cast<size_t>(end - first) < least_digits; value /= base)
      *--first = "0123456789abcdef"[value % base];
    add(first, static_cast<size_t>(end - first));
  }
  void whole(int64_t value) {
    if (value < 0) add("-");
    number(value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value));
  }
  void decimal(double value) {
    constexpr double kMost = 1e15;
    if (value != value) return add("nan");
    if (value < 0) add("-"), value = -value;
    if (value > kMost) return add("more than 1e15");
    const auto thousandths = static_cast<uint64_t>(value * 1000 + 0.5);
    number(thousandths / 1000);
    if (thousandths % 1000) add("."), number(thousandths % 1000, 10, 3);
  }

  int end() {
    if (size_) to_[std::min(length_, size_ - 1)] = 0;
    return static_cast<int>(length_);
  }

 private:
  char* to_;
  size_t size_, length_ = 0;
};

}  // namespace

int format_text(char* to, size_t size, const char* format, va_list args) {
  Text text(to, size);
  while (*format) {
    const size_t plain = std::strcspn(format, "%");
    text.add(format, plain);
    format += plain;
    if (!*format) break;
    ++format;
    size_t precision = SIZE_MAX;
    if (*format == '.' && *++format == '*') {
      precision = static_cast<size_t>(va_arg(args, int));
      ++format;
    } else if (format[-1] == '.') {
      for (precision = 0; *format >= '0' && *format <= '9'; ++format)
        precision = precision * 10 + static_cast<size_t>(*format - '0');
    }
    if (!std::strncmp(format, "lld", 3)) {
      text.whole(va_arg(args, long long));
      format += 3;
      continue;
    }
    if (*format == 'z') ++format;  // as long as an int
    switch (*format++) {
      case 's': {
        const char* const from = va_arg(args, const char*);
        text.add(from, strnlen(from, precision));
        break;
      }
      case 'd': text.whole(va_arg(args, int)); break;
      case 'u': text.number(va_arg(args, unsigned)); break;
      case 'p':
        text.add("0x");
        text.number(reinterpret_cast<uintptr_t>(va_arg(args, void*)), 16);
        break;
      case 'g': text.decimal(va_arg(args, double)); break;
      default: text.add(format - 1, 1);
    }
  }
  return text.end();
}

}  // namespace palm
