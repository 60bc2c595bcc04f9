#pragma once
#include "base/step.h"

namespace palm {

enum class Place { kArena, kConstant, kInput, kOutput };

// Where a tensor lies. slot: byte offset in the arena, or index of the constant, input or output;
// what lies there begins with element 0. offset: the element that the tensor begins at.
struct TensorSpec {
  Place place;
  size_t slot;
  Tensor tensor;
  size_t offset = 0;
  // The bytes of the slot from the tensor's first to its last; a program finds them.
  size_t begin = 0, end = 0;

  // Finds begin and end; false if the tensor begins before its slot, or ends beyond all numbers.
  bool find_ends();
  // Where it begins if its slot is at this address.
  const char* in(const void* slot) const {
    return static_cast<const char*>(slot) + offset * size_of(tensor.dtype);
  }
};

// Whether no byte is of both. Ends have to be known, as for `same`.
bool apart(const TensorSpec& x, const TensorSpec& y);

// Whether they are the same bytes, in the same order.
bool same(const TensorSpec& x, const TensorSpec& y);

}  // namespace palm
