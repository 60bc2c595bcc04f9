#pragma once
#include <exception>
#include <string>

namespace palm {

// Who must act: the model's maker, the caller, or the machine's owner.
enum class Fault { kModel, kShape, kUnsupported, kBackend };

class Error : public std::exception {
 public:
  Error(Fault fault, std::string message) : fault_(fault), message_(std::move(message)) {}
  Fault fault() const { return fault_; }
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  Fault fault_;
  std::string message_;
};

// Throws Error; `format` and what follows as in printf.
[[noreturn]] void fail(Fault fault, const char* format, ...) __attribute__((format(printf, 2, 3)));

}  // namespace palm
