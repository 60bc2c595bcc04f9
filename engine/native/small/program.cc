#include "small/program.h"

#include <algorithm>
#include <cstdlib>

#include "base/cpu.h"
#include "base/error.h"

namespace palm {

Arena::Arena(size_t bytes) : begin_(std::malloc(bytes + kAlignment)), size_(bytes) {
  if (!begin_) fail();
}
Arena& Arena::operator=(Arena&& other) noexcept {
  std::swap(begin_, other.begin_);
  std::swap(size_, other.size_);
  return *this;
}
Arena::~Arena() { std::free(begin_); }

bool Program::start(const Model& model, int threads) {
  if ((host_isa() & model.isa) != model.isa) return false;
  std::vector<Tensor> tensors;
  tensors.reserve(model.tensor_count);
  for (size_t i = 0; i < model.tensor_count; ++i) {
    const TensorEntry& from = model.tensors[i];
    const int32_t* const dims = model.numbers + from.dims;
    const int32_t* const strides = dims + from.rank;
    Tensor& t = tensors.emplace_back(static_cast<DType>(from.dtype),
                                     std::vector<size_t>(dims, dims + from.rank),
                                     from.has_strides ? Ints(strides, strides + from.rank) : Ints());
    if (from.place == TensorEntry::kConstant)
      t.constant = model.constants + model.constant_offsets[from.slot] + from.offset * size_of(t.dtype);
  }
  size_t scratch = 0;
  for (size_t s = 0; s < model.step_count; ++s) {
    const StepEntry& from = model.steps[s];
    const Attrs attrs(model.attrs + from.first_attr, from.attrs, model.values);
    Node node{{}, {}, attrs, model.isa};
    const size_t first = places_.size();
    for (size_t i = 0; i < size_t{from.inputs} + from.outputs; ++i) {
      const int16_t operand = model.operands[from.first_operand + i];
      (i < from.inputs ? node.inputs : node.outputs)
          .push_back(operand < 0 ? nullptr : &tensors[static_cast<size_t>(operand)]);
      Place& place = places_.emplace_back(Place{nullptr, TensorEntry::kArena, 0});
      if (operand < 0) continue;
      const TensorEntry& t = model.tensors[operand];
      const Tensor& tensor = tensors[static_cast<size_t>(operand)];
      place.place = t.place, place.slot = t.slot;
      if (t.place == TensorEntry::kArena) place.begin = model.arena + t.slot;
      if (t.place == TensorEntry::kConstant)
        place.begin = static_cast<char*>(const_cast<void*>(tensor.constant));
      else place.begin += t.offset * size_of(tensor.dtype);
    }
    StepPtr step = model.kernels[from.kernel](node);
    scratch = std::max(scratch, step->scratch_bytes(threads));
    steps_.push_back({std::move(step), first, from.inputs, from.outputs});
  }
  scratch_ = Arena(scratch);
  pool_ = std::make_unique<Pool>(threads);
  pointers_.resize(places_.size());
  return true;
}

void Program::run(const void* const* inputs, void* const* outputs) const {
  for (const Placed& s : steps_) {
    const Place* const places = places_.data() + s.first;
    void** const pointers = pointers_.data() + s.first;
    for (size_t i = 0; i < s.inputs + s.outputs; ++i) {
      const Place& place = places[i];
      pointers[i] = place.begin;
      if (place.place == TensorEntry::kInput)
        pointers[i] = static_cast<char*>(const_cast<void*>(inputs[place.slot])) +
                      reinterpret_cast<uintptr_t>(place.begin);
      if (place.place == TensorEntry::kOutput)
        pointers[i] = static_cast<char*>(outputs[place.slot]) +
                      reinterpret_cast<uintptr_t>(place.begin);
    }
    s.step->run({pointers, pointers + s.inputs, scratch_.data(), pool_.get(), {}});
  }
}

void Program::stop() {
  *this = Program();
}

}  // namespace palm
