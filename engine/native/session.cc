#include <atomic>
#include <chrono>
#include <utility>

#include "program.h"

namespace palm {
namespace {

void check_arrays(const char* what, const std::vector<const Tensor*>& expected,
                  const std::vector<Array>& arrays) {
  if (arrays.size() != expected.size()) {
    fail(Fault::kShape, "%ss: expected %zu arrays, got %zu", what, expected.size(), arrays.size());
  }
  for (size_t i = 0; i < arrays.size(); ++i) {
    const Tensor* t = expected[i];
    if (t && (arrays[i].dtype != t->dtype || arrays[i].count != t->count)) {
      fail(Fault::kShape, "%s %zu: expected %s, got %s of %zu elements", what, i, t->text().c_str(),
           name_of(arrays[i].dtype), arrays[i].count);
    }
  }
}

class Busy {
 public:
  explicit Busy(std::atomic<bool>& flag) : flag_(flag) {
    if (flag_.exchange(true)) fail(Fault::kBackend, "the session is being run by another caller");
  }
  ~Busy() { flag_ = false; }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;

 private:
  std::atomic<bool>& flag_;
};

}  // namespace

Session::Session(const Program& program, int threads, bool eager, Placement placement)
    : program_(program),
      placement_(std::move(placement)),
      runner_(placement_.is_default() ? nullptr : std::make_unique<Runner>(placement_)),
      pool_(threads, eager, &watch_, &placement_),
      alone_{Pool(1, false, &watch_), Pool(1, false, &watch_)} {
  size_t bytes = round_up(program.arena_used_);
  const std::vector<size_t> scratch = program.place_scratch(threads, bytes);
  memory_ = Arena(program.memory_, bytes);
  for (size_t offset : scratch) scratch_.push_back(memory_.data() + offset);
  next_.resize(steps());
  for (size_t s = steps(); s-- > 1;) {
    const Bytes weights = program.steps_[s].step->weights_read();
    next_[s - 1] = weights.size ? weights : next_[s];
  }
  for (const Program::Placed& placed : program.steps_) {
    starts_.push_back(pointers_.size());
    for (const auto* list : {&placed.inputs, &placed.outputs}) {
      for (const int64_t& i : *list) {
        void* pointer = nullptr;
        if (i >= 0) {
          const TensorSpec& spec = program.tensors_[static_cast<size_t>(i)];
          if (spec.place == Place::kArena) {
            pointer = const_cast<char*>(spec.in(memory_.data() + spec.slot));
          } else if (spec.place == Place::kConstant) {
            if (placed.step->reads(static_cast<size_t>(&i - list->data())))
              pointer = const_cast<void*>(spec.tensor.constant);
          } else {
            patches_.push_back({pointers_.size(), spec.place == Place::kOutput, spec.slot,
                                spec.offset * size_of(spec.tensor.dtype)});
          }
        }
        pointers_.push_back(pointer);
      }
    }
  }
}

void Session::run(const std::vector<Array>& inputs, const std::vector<Array>& outputs,
                  double* seconds, Watch::Ask ask, void* data, Watch::Clock::duration slice) {
  const Busy busy(running_);
  if (runner_) runner_->check_process();
  pool_.check_process();
  watch_.begin(ask, data, slice);
  check_arrays("input", program_.inputs_, inputs);
  check_arrays("output", program_.outputs_, outputs);
  for (const Patch& patch : patches_)
    pointers_[patch.position] =
        static_cast<char*>(const_cast<void*>((patch.output ? outputs : inputs)[patch.slot].data)) +
        patch.offset;
  if (runner_) runner_->run([&] { run_steps(seconds); }, &watch_);
  else run_steps(seconds);
}

void Session::run_steps(double* seconds) {
  for (size_t s = 0; s < steps(); ++s) {
    const auto t0 =
        seconds ? std::chrono::steady_clock::now() : std::chrono::steady_clock::time_point();
    const size_t end = seconds || pool_.threads() == 1 ? s : program_.end_of_branches(s);
    if (end > s) {
      pool_.parallel(2, Grain{1, 1}, [&](size_t first, size_t last, int) {
        for (size_t branch = first + 1; branch <= last; ++branch)
          for (size_t i = s; i < end; ++i)
            if (program_.steps_[i].branch == static_cast<int>(branch))
              run_step(i, alone_[branch - 1]);
      });
      s = end - 1;
    } else {
      run_step(s, pool_);
    }
    if (seconds)
      *seconds++ = std::chrono::duration<double>(std::chrono::steady_clock::now() - t0).count();
  }
}

void Session::run_step(size_t step, Pool& pool) {
  const Program::Placed& placed = program_.steps_[step];
  constexpr size_t kStepsBetweenLooks = 16;
  if (step % kStepsBetweenLooks == 0 || pool.is_sliced()) pool.look();
  void** const x = pointers_.data() + starts_[step];
  if (!placed.idle) placed.step->run({x, x + placed.inputs.size(), scratch_[step], &pool, next_[step]});
}

}  // namespace palm
