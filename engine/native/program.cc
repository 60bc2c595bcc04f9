#include "program.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <system_error>
#include <thread>

#include "base/sort.h"

namespace palm {
namespace {

using Make = StepPtr (*)(const Node&);

}  // namespace

#define PALM_STEP(name)                    \
  StepPtr make_##name(const Node& node); \
  extern const Operands operands_of_##name;
#include "steps.inc"
#undef PALM_STEP

namespace {

struct Kernel {
  std::string_view name;
  Make make;
  const Operands& operands;
};

constexpr Kernel kKernels[] = {
#define PALM_STEP(name) {#name, make_##name, operands_of_##name},
#include "steps.inc"
#undef PALM_STEP
};

const Kernel& find(const std::string& name) {
  for (const Kernel& kernel : kKernels)
    if (name == kernel.name) return kernel;
  std::string known;
  for (const Kernel& kernel : kKernels) known.append(known.empty() ? "" : ", ").append(kernel.name);
  fail(Fault::kUnsupported, "no kernel %.40s; known: %s", name.c_str(), known.c_str());
}

size_t bytes_of(const std::vector<Array>& constants) {
  size_t bytes = 0;
  for (const Array& array : constants) bytes += array.count * size_of(array.dtype);
  return bytes;
}

// What weights and a session may take. Winograd's largest tiles have 7 times the weights.
size_t most_bytes(size_t constant_bytes, size_t arena_bytes) {
  constexpr size_t kMost = limit(48);
  return 8 * std::min(constant_bytes, kMost) + 2 * std::min(arena_bytes, kMost);
}

}  // namespace

Node node_of(const std::vector<TensorSpec>& tensors, const StepSpec& spec, uint32_t isa) {
  Node node{{}, {}, spec.attrs, isa};
  const auto count = static_cast<int64_t>(tensors.size());
  for (int64_t i : spec.inputs) {
    if (i < -1 || i >= count) fail(Fault::kModel, "no tensor %lld", static_cast<long long>(i));
    node.inputs.push_back(i < 0 ? nullptr : &tensors[static_cast<size_t>(i)].tensor);
  }
  for (int64_t i : spec.outputs) {
    if (i < 0 || i >= count) fail(Fault::kModel, "no tensor %lld", static_cast<long long>(i));
    const TensorSpec& target = tensors[static_cast<size_t>(i)];
    if (target.place == Place::kConstant || target.place == Place::kInput)
      fail(Fault::kModel, "writes a constant or an input, tensor %lld", static_cast<long long>(i));
    node.outputs.push_back(&target.tensor);
  }
  return node;
}

std::vector<KernelEntry> kernels() {
  std::vector<KernelEntry> entries;
  for (const Kernel& kernel : kKernels) entries.push_back({kernel.name, kernel.operands});
  return entries;
}

Program::Program(std::vector<TensorSpec> tensors, const std::vector<StepSpec>& steps,
                 const std::vector<Array>& constants, size_t arena_bytes, uint32_t isa, int threads)
    : memory_(bytes_of(constants) + arena_bytes, most_bytes(bytes_of(constants), arena_bytes)),
      tensors_(std::move(tensors)) {
  place(constants, arena_bytes);
  steps_.resize(steps.size());
  constexpr size_t kWorthAThread = 256 << 10;
  const size_t most = std::min(steps.size(), bytes_of(constants) / kWorthAThread);
  const size_t sharers = std::clamp<size_t>(most, 1, static_cast<size_t>(std::max(threads, 1)));
  size_t decoded_bytes = 0;
  for (const StepSpec& spec : steps)
    decoded_bytes = std::max(decoded_bytes, bytes_of_stored(spec, constants));
  std::vector<std::exception_ptr> failures(steps.size());
  std::atomic<size_t> next{0};
  const auto work = [&] {
    Arena decoded;
    for (size_t i; (i = next++) < steps.size();) {
      try {
        if (decoded_bytes && !decoded.data()) decoded = Arena(decoded_bytes);
        steps_[i] = placed(steps[i], constants, isa, decoded.data());
      } catch (...) { failures[i] = std::current_exception(); }
    }
  };
  std::vector<std::thread> workers;
  workers.reserve(sharers - 1);
  try {
    while (workers.size() + 1 < sharers) workers.emplace_back(work);
  } catch (const std::system_error&) {
    // Fewer do it too.
  }
  work();
  for (std::thread& worker : workers) worker.join();
  for (size_t i = 0; i < steps.size(); ++i) {
    try {
      if (failures[i]) std::rethrow_exception(failures[i]);
    } catch (const Error& error) {
      throw Error(error.fault(), "step " + std::to_string(i) + ": " +
                                     steps[i].kernel.substr(0, 40) + ": " + error.what());
    }
  }
  keep_what_runs_read(constants);
  // Whoever made the plan says that branches do not touch what the other writes; it is looked at.
  for (size_t s = 0; s < steps_.size(); ++s) {
    constexpr size_t kMost = 1024;  // more would take long to look at
    const size_t end = end_of_branches(s);
    bool meet = end - s > kMost;
    for (size_t a = s; a < end && !meet; ++a)
      for (size_t b = s; b < a && !meet; ++b)
        meet = steps_[a].branch != steps_[b].branch && may_meet(steps_[a], steps_[b]);
    for (size_t i = s; meet && i < end; ++i) steps_[i].branch = 0;
    if (end > s) s = end - 1;
  }
}

size_t Program::end_of_branches(size_t step) const {
  while (step < steps_.size() && steps_[step].branch) ++step;
  return step;
}

// Whether one of two steps writes where the other reads or writes.
bool Program::may_meet(const Placed& one, const Placed& other) const {
  const auto writes_to = [&](const Placed& writer, const std::vector<int64_t>& touched) {
    for (int64_t o : writer.outputs)
      for (int64_t t : touched)
        if (t >= 0 && !apart(tensors_[static_cast<size_t>(o)], tensors_[static_cast<size_t>(t)]))
          return true;
    return false;
  };
  return writes_to(one, other.inputs) || writes_to(one, other.outputs) ||
         writes_to(other, one.inputs);
}

void Program::place(const std::vector<Array>& constants, size_t arena_bytes) {
  constexpr size_t kMostBytes = limit(48);
  if (arena_bytes > kMostBytes) fail(Fault::kModel, "an arena of %zu bytes", arena_bytes);
  for (size_t i = 0; i < tensors_.size(); ++i) {
    TensorSpec& spec = tensors_[i];
    Tensor& t = spec.tensor;
    if (!spec.find_ends()) {
      fail(Fault::kModel, "tensor %zu: %s from element %zu on reaches too far", i, t.text().c_str(),
           spec.offset);
    }
    if (spec.place == Place::kArena) {
      size_t end;
      if (spec.slot % kAlignment || __builtin_add_overflow(spec.slot, spec.end, &end) ||
          end > arena_bytes) {
        fail(Fault::kModel, "tensor %zu: %s does not fit at byte %zu of an arena of %zu", i,
             t.text().c_str(), spec.slot, arena_bytes);
      }
      if (end > arena_used_) arena_used_ = end;
    } else if (spec.place == Place::kConstant) {
      if (spec.slot >= constants.size()) {
        fail(Fault::kModel, "tensor %zu: no constant %zu", i, spec.slot);
      }
      const Array& array = constants[spec.slot];
      const bool is_part = spec.offset || !t.is_dense();
      const bool fits = is_part ? spec.end <= array.count * size_of(array.dtype)
                                : array.count == t.count;
      if (array.dtype != t.dtype || !fits) {
        fail(Fault::kModel, "tensor %zu: expected %s, got constant %s of %zu elements", i,
             t.text().c_str(), name_of(array.dtype), array.count);
      }
      if (reinterpret_cast<uintptr_t>(array.data) % size_of(t.dtype)) {
        fail(Fault::kModel, "constant %zu is not aligned to its element size", spec.slot);
      }
      static const double nothing = 0;
      // What is stored is decoded for each step.
      t.constant = &nothing;
      if (t.count && !array.stored) t.constant = spec.in(array.data);
    } else {
      auto& slots = spec.place == Place::kInput ? inputs_ : outputs_;
      constexpr size_t kMaxSlots = 4096;
      if (spec.slot >= kMaxSlots) fail(Fault::kModel, "tensor %zu: no slot %zu", i, spec.slot);
      if (spec.slot >= slots.size()) slots.resize(spec.slot + 1);
      // The first tensor with a slot is all of it.
      const Tensor*& first = slots[spec.slot];
      if (!first && !spec.offset && t.is_dense()) {
        first = &t;
      } else if (!first || first->dtype != t.dtype || spec.end > first->bytes()) {
        fail(Fault::kModel, "tensor %zu: %s is no part of %s", i, t.text().c_str(),
             first ? first->text().c_str() : "an array");
      }
    }
  }
}

// What the stored constants among the inputs of a step take when they are decoded.
size_t Program::bytes_of_stored(const StepSpec& spec, const std::vector<Array>& constants) const {
  size_t bytes = 0;
  for (int64_t i : spec.inputs)
    if (const Array* const coded = stored_of(i, constants))
      bytes += round_up(coded->count * size_of(coded->dtype));
  return bytes;
}

Program::Placed Program::placed(const StepSpec& spec, const std::vector<Array>& constants,
                                uint32_t isa, char* decoded) const {
  Node node = node_of(tensors_, spec, isa);
  std::vector<Tensor> constant;
  constant.reserve(spec.inputs.size());
  for (size_t i = 0; i < spec.inputs.size(); ++i) {
    const Array* const coded = stored_of(spec.inputs[i], constants);
    if (!coded) continue;
    Tensor& t = constant.emplace_back(*node.inputs[i]);
    coded->stored->decode(decoded);
    t.constant = tensors_[static_cast<size_t>(spec.inputs[i])].in(decoded);
    decoded += round_up(coded->count * size_of(coded->dtype));
    node.inputs[i] = &t;
  }
  StepPtr step;
  {
    const Region::Use use(memory_);
    const Kernel& kernel = find(spec.kernel);
    check_views(kernel.operands, node);
    step = kernel.make(node);
  }
  const int64_t branch = spec.attrs.integer("branch", 0);
  if (branch < 0 || branch > 2) fail(Fault::kModel, "branch %lld", static_cast<long long>(branch));
  node.attrs.check_all_read();
  check_overlaps(*step, spec);
  const bool idle = std::all_of(node.outputs.begin(), node.outputs.end(),
                                [](const Tensor* y) { return y->count == 0; });
  return {std::move(step), spec.inputs, spec.outputs, idle, static_cast<int>(branch)};
}

// The constant that tensor i is, if it is stored.
const Array* Program::stored_of(int64_t i, const std::vector<Array>& constants) const {
  if (i < 0 || static_cast<size_t>(i) >= tensors_.size()) return nullptr;
  const TensorSpec& spec = tensors_[static_cast<size_t>(i)];
  if (spec.place != Place::kConstant || !spec.tensor.count) return nullptr;
  const Array& array = constants[spec.slot];
  return array.stored ? &array : nullptr;
}

// What is smaller than a page is copied, so that the pages of a file that it lies in can go.
void Program::keep_what_runs_read(const std::vector<Array>& constants) {
  constexpr size_t kSmall = 4 << 10;
  const Region::Use use(memory_);
  std::vector<bool> done(tensors_.size());
  for (const Placed& placed : steps_) {
    for (size_t i = 0; i < placed.inputs.size(); ++i) {
      if (placed.inputs[i] < 0 || !placed.step->reads(i)) continue;
      const auto index = static_cast<size_t>(placed.inputs[i]);
      Tensor& t = tensors_[index].tensor;
      const Array* const coded = stored_of(placed.inputs[i], constants);
      const TensorSpec& spec = tensors_[index];
      if (done[index] || spec.place != Place::kConstant || !t.count) continue;
      const Array& whole = constants[spec.slot];
      const size_t bytes = whole.count * size_of(whole.dtype);
      if (!coded && bytes > kSmall) continue;
      done[index] = true;
      const Arena& copy = kept_.emplace_back(bytes);
      if (coded) coded->stored->decode(copy.data());
      else std::memcpy(copy.data(), whole.data, bytes);
      t.constant = spec.in(copy.data());
    }
  }
}

std::vector<Bytes> Program::constants_read() const {
  std::vector<Bytes> all;
  for (const Placed& placed : steps_) {
    for (size_t i = 0; i < placed.inputs.size(); ++i) {
      if (placed.inputs[i] < 0 || !placed.step->reads(i)) continue;
      const TensorSpec& spec = tensors_[static_cast<size_t>(placed.inputs[i])];
      const Tensor& t = spec.tensor;
      if (!t.constant || !t.count) continue;
      const char* const first = static_cast<const char*>(t.constant);
      all.push_back({first - spec.offset * size_of(t.dtype) + spec.begin, spec.end - spec.begin});
    }
  }
  sort_all(all, [](const Bytes& a, const Bytes& b) { return a.data < b.data; });
  return all;
}

void Program::check_overlaps(const Step& step, const StepSpec& spec) const {
  for (const int64_t& o : spec.outputs) {
    const TensorSpec& y = tensors_[static_cast<size_t>(o)];
    for (size_t i = 0; i < spec.inputs.size(); ++i) {
      if (spec.inputs[i] < 0) continue;
      const TensorSpec& x = tensors_[static_cast<size_t>(spec.inputs[i])];
      if (apart(x, y) || (o == spec.outputs[0] && same(x, y) && step.in_place(i))) continue;
      fail(Fault::kModel, "an output overlaps input %zu", i);
    }
    for (const int64_t& other : spec.outputs) {
      if (&other == &o) break;
      if (!apart(tensors_[static_cast<size_t>(other)], y))
        fail(Fault::kModel, "two outputs overlap");
    }
  }
}

// The first of the steps before `step` that write tensor t as other views of its slot.
size_t Program::written_since(size_t t, size_t step) const {
  const TensorSpec& read = tensors_[t];
  size_t found = 0, bytes = 0;
  for (size_t s = step; s-- > 0 && bytes < read.tensor.bytes();) {
    for (int64_t o : steps_[s].outputs) {
      const TensorSpec& y = tensors_[static_cast<size_t>(o)];
      if (y.place != Place::kArena || y.slot != read.slot || apart(y, read)) continue;
      bytes += y.tensor.bytes();
      found = s;
    }
  }
  return bytes < read.tensor.bytes() ? 0 : found;
}

// A step's scratch lies where the arena has nothing alive while it runs, or behind it.
std::vector<size_t> Program::place_scratch(int threads, size_t& end) const {
  struct Life {
    size_t first, last;
  };
  const size_t never = steps_.size();
  std::vector<Life> lives(tensors_.size(), {never, 0});
  const auto in_arena = [&](int64_t i) {
    return i >= 0 && tensors_[static_cast<size_t>(i)].place == Place::kArena;
  };
  for (size_t s = 0; s < never; ++s) {
    for (int64_t o : steps_[s].outputs) {
      if (!in_arena(o)) continue;
      Life& life = lives[static_cast<size_t>(o)];
      life = {std::min(life.first, s), s};
    }
  }
  for (size_t s = 0; s < never; ++s) {
    for (int64_t i : steps_[s].inputs) {
      if (!in_arena(i)) continue;
      Life& life = lives[static_cast<size_t>(i)];
      if (life.first >= s) life.first = written_since(static_cast<size_t>(i), s);
      life.last = std::max(life.last, s);
    }
  }
  std::vector<std::vector<size_t>> born(steps_.size());
  for (size_t t = 0; t < tensors_.size(); ++t)
    if (lives[t].first < never && tensors_[t].tensor.count) born[lives[t].first].push_back(t);
  std::vector<size_t> offsets(steps_.size()), alive;
  size_t of_branch[2] = {0, 0};  // bytes
  for (size_t s = 0; s < never; ++s) {
    const auto is_dead = [&](size_t t) { return lives[t].last < s; };
    alive.erase(std::remove_if(alive.begin(), alive.end(), is_dead), alive.end());
    alive.insert(alive.end(), born[s].begin(), born[s].end());
    const size_t bytes = round_up(steps_[s].step->scratch_bytes(threads));
    if (!bytes) continue;
    if (const int branch = steps_[s].branch) {
      of_branch[branch - 1] = std::max(of_branch[branch - 1], bytes);
      continue;
    }
    const auto first_byte = [&](size_t t) { return tensors_[t].slot + tensors_[t].begin; };
    sort_all(alive, [&](size_t a, size_t b) { return first_byte(a) < first_byte(b); });
    size_t begin = 0;
    for (size_t t : alive) {
      if (first_byte(t) >= begin && first_byte(t) - begin >= bytes) break;
      begin = std::max(begin, round_up(tensors_[t].slot + tensors_[t].end));
    }
    size_t stop;
    if (__builtin_add_overflow(begin, bytes, &stop)) fail(Fault::kBackend, "out of memory");
    offsets[s] = begin;
    end = std::max(end, stop);
  }
  // That of branches, which run at a time, lies behind all else.
  for (size_t s = 0; s < never; ++s)
    if (const int branch = steps_[s].branch) offsets[s] = branch == 1 ? end : end + of_branch[0];
  if (__builtin_add_overflow(end, of_branch[0] + of_branch[1], &end))
    fail(Fault::kBackend, "out of memory");
  return offsets;
}

}  // namespace palm
