#pragma once
// The networks of a kit, which the caller runs.
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "image.h"
#include "palm_kits.h"

namespace palm_kits {

// An output of a network, dense.
struct Output {
  Output(const char* name_, std::initializer_list<int64_t> dims_);
  const char* name;
  std::vector<int64_t> dims;
  std::vector<float> data;
};

class Network {
 public:
  explicit Network(const palm_kits_network* network, const char* what);

  const std::vector<palm_kits_size>& sizes() const { return sizes_; }
  // The side of the first size; refuses a network whose input is no square.
  int side() const;
  // Runs it on a picture; `up`, two numbers, is its second input where it is not NULL.
  void run(View image, std::vector<Output>& outputs, const float* up = nullptr) const;

 private:
  palm_kits_run run_;
  void* user_;
  const char* what_;
  std::vector<palm_kits_size> sizes_;
};

}  // namespace palm_kits
