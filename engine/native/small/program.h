#pragma once
// A model that is compiled in: its plan in tables, its weights among the library's constants.
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/step.h"

namespace palm {

struct TensorEntry {
  enum Place : uint8_t { kArena, kConstant, kInput, kOutput };
  uint8_t place, dtype, rank, has_strides;
  uint16_t dims;    // where its dims begin in the table of numbers, its strides behind them
  uint32_t slot;    // byte in the arena, or which constant, input or output
  uint32_t offset;  // in elements
};

struct StepEntry {
  uint8_t kernel, inputs, outputs, attrs;
  uint16_t first_operand, first_attr;
};

using Make = StepPtr (*)(const Node& node);

struct Model {
  const TensorEntry* tensors;
  size_t tensor_count;
  const int32_t* numbers;
  const StepEntry* steps;
  size_t step_count;
  const int16_t* operands;  // tensors; -1: an input that is left out
  const AttrEntry* attrs;
  AttrValues values;
  const Make* kernels;
  const char* constants;  // at a multiple of kAlignment
  const uint32_t* constant_offsets;
  char* arena;    // likewise
  uint32_t isa;   // what its kernels need
};

// A model that was started. It runs for one caller at a time.
class Program {
 public:
  // Packs the weights. threads: that share in runs, where the library has threads. False if this
  // machine lacks the instruction set.
  bool start(const Model& model, int threads);
  void run(const void* const* inputs, void* const* outputs) const;
  void stop();
  bool is_started() const { return !steps_.empty(); }

 private:
  struct Place {
    char* begin;    // of what is the caller's, the offset alone
    uint8_t place;  // TensorEntry::Place
    uint32_t slot;
  };

  struct Placed {
    StepPtr step;
    size_t first;  // of its places
    size_t inputs, outputs;
  };

  std::vector<Placed> steps_;
  std::vector<Place> places_;
  mutable std::vector<void*> pointers_;
  Arena scratch_;
  std::unique_ptr<Pool> pool_;
};

}  // namespace palm
