#pragma once
#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "base/arena.h"
#include "base/placement.h"
#include "base/runner.h"
#include "base/step.h"
#include "base/threads.h"
#include "entropy/stored.h"
#include "tensor_spec.h"

namespace palm {

// A step: tensor indices, -1 for an optional input left out.
struct StepSpec {
  std::string kernel;
  std::vector<int64_t> inputs, outputs;
  Attrs attrs;
};

// An array of the caller's. stored: it is a constant that must be decoded; then it has no data.
struct Array {
  const void* data;
  DType dtype;
  size_t count;
  const Stored* stored = nullptr;
};

// What a kernel sees of a step; `tensors` must outlive it.
Node node_of(const std::vector<TensorSpec>& tensors, const StepSpec& spec, uint32_t isa);

// A kernel that a step may name.
struct KernelEntry {
  std::string_view name;
  const Operands& operands;
};
std::vector<KernelEntry> kernels();

// A plan, checked and with its weights packed; immutable, so any number of sessions may share it.
class Program {
 public:
  // `constants` must outlive the program, unless they are stored. `isa`: kernels use nothing beyond
  // it. `threads`: how many pack weights.
  // Throws Error for whatever could read or write outside of the tensors.
  Program(std::vector<TensorSpec> tensors, const std::vector<StepSpec>& steps,
          const std::vector<Array>& constants, size_t arena_bytes, uint32_t isa, int threads = 1);
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // What of the constants a run reads where the caller has it, in the order of the addresses.
  std::vector<Bytes> constants_read() const;

 private:
  friend class Session;

  struct Placed {
    StepPtr step;
    std::vector<int64_t> inputs, outputs;
    bool idle;  // nothing to write: kernels may then loop for long over other dims
    int branch;  // of steps one after the other that two threads share out: 1 or 2; else 0
  };

  void place(const std::vector<Array>& constants, size_t arena_bytes);
  // decoded: room for `bytes_of_stored`.
  Placed placed(const StepSpec& spec, const std::vector<Array>& constants, uint32_t isa,
                char* decoded) const;
  size_t bytes_of_stored(const StepSpec& spec, const std::vector<Array>& constants) const;
  const Array* stored_of(int64_t i, const std::vector<Array>& constants) const;
  void keep_what_runs_read(const std::vector<Array>& constants);
  void check_overlaps(const Step& step, const StepSpec& spec) const;
  bool may_meet(const Placed& one, const Placed& other) const;
  size_t end_of_branches(size_t step) const;  // the first step behind them
  size_t written_since(size_t t, size_t step) const;
  // For each step where its scratch begins in a session's memory; `end` grows to where all ends.
  std::vector<size_t> place_scratch(int threads, size_t& end) const;

  mutable Region memory_;  // of the weights, and of a session
  std::vector<TensorSpec> tensors_;
  std::vector<Arena> kept_;
  std::vector<Placed> steps_;
  std::vector<const Tensor*> inputs_, outputs_;  // null: no tensor has this slot
  size_t arena_used_ = 0;
};

// What one caller at a time needs to run a program: arena, scratch and threads.
class Session {
 public:
  // `program` must outlive the session. eager: see Pool. placement: of all threads of a run; if it
  // is not the default one the caller does nothing of it itself.
  // Throws Error if the system does not let threads be placed so.
  Session(const Program& program, int threads, bool eager = false, Placement placement = {});

  // Runs every step. Throws Error if an array is not what the plan says, if the session is being
  // run by another caller, or if `ask`, if any, says no: see Watch, also for `slice`. `seconds`, if
  // any, gets one entry a step.
  void run(const std::vector<Array>& inputs, const std::vector<Array>& outputs,
           double* seconds = nullptr, Watch::Ask ask = nullptr, void* data = nullptr,
           Watch::Clock::duration slice = Watch::Clock::duration::zero());

  size_t steps() const { return program_.steps_.size(); }

 private:
  struct Patch {
    size_t position;  // in pointers_
    bool output;
    size_t slot;
    size_t offset;  // in bytes
  };

  void run_steps(double* seconds);
  void run_step(size_t step, Pool& pool);

  const Program& program_;
  Watch watch_;
  const Placement placement_;
  std::unique_ptr<Runner> runner_;  // of runs that are not done by their caller
  Pool pool_, alone_[2];  // alone_: of the threads that have a branch each
  Arena memory_;
  std::vector<char*> scratch_;   // of each step, in the memory
  std::vector<void*> pointers_;  // of every step's inputs, then outputs, in order
  std::vector<size_t> starts_;   // of each step's pointers
  std::vector<Bytes> next_;      // what the nearest step behind each reads
  std::vector<Patch> patches_;   // the pointers that are the caller's
  std::atomic<bool> running_{false};
};

}  // namespace palm
