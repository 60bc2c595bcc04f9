#include "plans.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "base/sort.h"

namespace palm {
namespace {

constexpr int64_t kMostDim = INT32_MAX;
constexpr size_t kMostRank = 8, kMostBytes = size_t{1} << 31;

// Takes numbers from a run of bytes, never beyond its end.
class Reader {
 public:
  Reader(Bytes bytes, const std::vector<std::string>& texts) : bytes_(bytes), texts_(texts) {}

  template <class T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof value), sizeof value);
    return value;
  }

  size_t size() {
    const auto value = number<uint64_t>();
    if (value > SIZE_MAX) fail(Fault::kModel, "damaged: a plan has a size beyond this machine's");
    return static_cast<size_t>(value);
  }

  // How many of something follow that takes `bytes` or more each.
  size_t count(size_t bytes) {
    const size_t n = number<uint32_t>();
    if (n > bytes_.size / bytes) fail(Fault::kModel, "damaged: a plan is cut short");
    return n;
  }

  const char* take(size_t size) {
    if (size > bytes_.size) fail(Fault::kModel, "damaged: a plan is cut short");
    const char* const begin = bytes_.data;
    bytes_ = {begin + size, bytes_.size - size};
    return begin;
  }

  const std::string& text() {
    const size_t i = number<uint32_t>();
    if (i >= texts_.size()) fail(Fault::kModel, "damaged: a plan has no text %zu", i);
    return texts_[i];
  }

  template <class T, class Element>
  std::vector<T> list() {
    std::vector<T> values(count(sizeof(Element)));
    for (T& value : values) value = static_cast<T>(number<Element>());
    return values;
  }

  size_t rank() {
    const size_t n = count(sizeof(int64_t));
    if (n > kMostRank) fail(Fault::kShape, "damaged: expected at most 8 dims, got %zu", n);
    return n;
  }

  int64_t dim() {
    const auto size = number<int64_t>();
    if (size < 0 || size > kMostDim)
      fail(Fault::kShape, "damaged: not a dim: %lld", static_cast<long long>(size));
    return size;
  }

  template <class Size = int64_t>
  std::vector<Size> dims() {
    std::vector<Size> sizes(rank());
    for (Size& size : sizes) size = static_cast<Size>(dim());
    return sizes;
  }

  Value value() {
    Value v{text(), text(), {}};
    for (size_t n = rank(); n; --n) {
      const auto size = number<int64_t>();
      if (size < -1 || size > kMostDim)
        fail(Fault::kShape, "damaged: not a dim: %lld", static_cast<long long>(size));
      if (size == -1) v.dims.emplace_back(text());
      else v.dims.emplace_back(size);
    }
    return v;
  }

  std::unique_ptr<const Stored> stored(Bytes data, DType dtype, size_t elements) {
    return read_stored(bytes_, data, dtype, elements);
  }

  bool done() const { return bytes_.size == 0; }
  Bytes rest() const { return bytes_; }

 private:
  Bytes bytes_;
  const std::vector<std::string>& texts_;
};

Tensor tensor(const std::string& dtype, const Ints& dims) {
  return Tensor(dtype_by_name(dtype), {dims.begin(), dims.end()});
}

// How a plan's constants are stored.
enum : uint8_t { kRaw, kHalf, kCoded };

// `left`: how many bytes may still be decoded.
void add_constant(Reader& r, Bytes data, size_t& left, Plan& plan) {
  const DType dtype = dtype_by_name(r.text());
  const size_t elements = r.size(), offset = r.size();
  const auto storage = r.number<uint8_t>();
  if (storage > kCoded) fail(Fault::kModel, "damaged: a plan's constant is stored as %d", storage);
  if (storage == kCoded) {
    const size_t size = checked_product(elements, size_of(dtype));
    if (size > left) fail(Fault::kModel, "damaged: more in the constants than the file can hold");
    left -= size;
    plan.stored.push_back(r.stored(data, dtype, elements));
    plan.constants.push_back({nullptr, dtype, elements, plan.stored.back().get()});
    return;
  }
  const bool half = storage == kHalf;
  const size_t size = checked_product(elements, half ? 2 : size_of(dtype));
  if (offset % kAlignment || offset > data.size || size > data.size - offset)
    fail(Fault::kModel, "damaged: a plan's constant lies outside the file");
  const char* const bytes = data.data + offset;
  if (dtype == DType::kBool)
    for (size_t i = 0; i < size; ++i)
      if (bytes[i] & ~1) fail(Fault::kModel, "damaged: a plan's constant is not of 0 and 1");
  if (half && dtype != DType::kFloat32) fail(Fault::kModel, "damaged: half of %s", name_of(dtype));
  if (!half) return plan.constants.push_back({bytes, dtype, elements});
  plan.stored.push_back(half_at(bytes, elements));
  plan.constants.push_back({bytes, dtype, elements, plan.stored.back().get()});
}

TensorSpec tensor_spec(Reader& r) {
  const auto place = r.number<uint8_t>();
  if (place > static_cast<uint8_t>(Place::kOutput)) fail(Fault::kModel, "damaged: no place");
  const size_t slot = r.size();
  const DType dtype = dtype_by_name(r.text());
  std::vector<size_t> dims = r.dims<size_t>();
  const size_t offset = r.size();
  return {static_cast<Place>(place), slot,
          Tensor(dtype, std::move(dims), r.list<int64_t, int64_t>()), offset};
}

Attr attr(Reader& r) {
  switch (r.number<uint8_t>()) {
    case 0: return r.number<int64_t>();
    case 1: return r.number<double>();
    case 2: return r.text();
    case 3: return r.list<int64_t, int64_t>();
    case 4: return r.list<double, double>();
    default: fail(Fault::kModel, "damaged: an attribute is of no kind");
  }
}

StepSpec step_spec(Reader& r) {
  StepSpec step{r.text(), {}, {}, {}};
  step.inputs = r.list<int64_t, int32_t>();
  step.outputs = r.list<int64_t, int32_t>();
  for (size_t n = r.count(5); n; --n) {
    const std::string& name = r.text();
    step.attrs.set(name, attr(r));
  }
  return step;
}

// Throws Error if two of the inputs, or outputs, have the same name.
void check_names(const std::vector<Value>& values) {
  std::vector<std::string_view> names;
  for (const Value& value : values) names.push_back(value.name);
  sort_all(names);
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end())
    fail(Fault::kModel, "damaged: two values are called %.80s", std::string(*twice).c_str());
}

// The tensors at the plan's borders are what the file says of them, and every output is written.
void check_borders(const Plan& plan, const std::vector<Value>& inputs,
                   const std::vector<Ints>& shapes) {
  std::vector<bool> written(plan.outputs.size());
  for (const StepSpec& step : plan.steps)
    for (int64_t o : step.outputs)
      if (o >= 0 && static_cast<size_t>(o) < plan.tensors.size()) {
        const TensorSpec& spec = plan.tensors[static_cast<size_t>(o)];
        if (spec.place == Place::kOutput && spec.slot < written.size()) written[spec.slot] = true;
      }
  for (bool each : written)
    if (!each) fail(Fault::kModel, "damaged: a plan leaves out an output");
  std::vector<bool> seen[2] = {std::vector<bool>(plan.outputs.size()),
                               std::vector<bool>(inputs.size())};
  for (const TensorSpec& spec : plan.tensors) {
    if (spec.place != Place::kInput && spec.place != Place::kOutput) continue;
    const bool in = spec.place == Place::kInput;
    if (spec.slot >= (in ? inputs.size() : plan.outputs.size()))
      fail(Fault::kModel, "damaged: a plan has too many inputs or outputs");
    // The first is all of it; a program looks that others are parts.
    std::vector<bool>& all = seen[in];
    if (all[spec.slot]) continue;
    all[spec.slot] = true;
    const std::string& dtype = in ? inputs[spec.slot].dtype : plan.outputs[spec.slot].dtype;
    const Tensor expected = tensor(dtype, in ? shapes[spec.slot] : plan.outputs[spec.slot].dims);
    if (expected.dtype != spec.tensor.dtype || expected.count != spec.tensor.count) {
      fail(Fault::kModel, "damaged: a plan has %s for %s", spec.tensor.text().c_str(),
           expected.text().c_str());
    }
  }
}

}  // namespace

Plans::Plans(Bytes section, Bytes data) : data_(data) {
  Reader r(section, texts_);
  std::vector<std::string> texts(r.count(sizeof(uint32_t)));
  for (std::string& text : texts) {
    const size_t size = r.count(1);
    text.assign(r.take(size), size);
  }
  texts_ = std::move(texts);
  for (auto* values : {&inputs_, &outputs_})
    for (size_t n = r.count(3 * sizeof(uint32_t)); n; --n) values->push_back(r.value());
  check_names(inputs_);
  check_names(outputs_);
  for (size_t n = r.count(2 * sizeof(uint32_t)); n; --n) {
    const std::string& key = r.text();
    metadata_.emplace_back(key, r.text());
  }
  for (size_t n = r.count(sizeof(uint64_t) + sizeof(uint32_t)); n; --n) {
    const size_t size = r.size();
    const std::string& backend = r.text();
    Reader plan({r.take(size), size}, texts_);
    std::vector<Ints> shapes;
    for (const Value& input : inputs_) {
      shapes.push_back(plan.dims());
      const Ints& shape = shapes.back();
      bool fits = shape.size() == input.dims.size();
      for (size_t i = 0; fits && i < shape.size(); ++i) {
        const int64_t* const size = std::get_if<int64_t>(&input.dims[i]);
        fits = !size || *size == shape[i];
      }
      if (!fits) fail(Fault::kModel, "damaged: a plan is for another shape of an input");
    }
    plans_.push_back({backend, std::move(shapes), plan.rest()});
  }
  if (!r.done()) fail(Fault::kModel, "damaged: bytes behind the plans");
}

Plan Plans::read(size_t i) const {
  const Entry& entry = plans_.at(i);
  if (entry.backend != kBackend)
    fail(Fault::kUnsupported, "a plan of backend %.40s", entry.backend.c_str());
  Reader r(entry.bytes, texts_);
  Plan plan{};
  for (const Value& output : outputs_) {
    const std::string& dtype = r.text();
    plan.outputs.push_back({dtype, r.dims()});
    const Tensor t = tensor(dtype, plan.outputs.back().dims);
    if (t.bytes() > kMostBytes || dtype != output.dtype)
      fail(Fault::kShape, "damaged: output %.80s: %s", output.name.c_str(), t.text().c_str());
  }
  plan.arena_bytes = r.size();
  plan.lower_bound_bytes = r.size();
  size_t left = most_decoded(data_.size);
  for (size_t n = r.count(21); n; --n) add_constant(r, data_, left, plan);
  for (size_t n = r.count(29); n; --n) plan.tensors.push_back(tensor_spec(r));
  for (size_t n = r.count(20); n; --n) {
    plan.nodes.push_back(r.text());
    plan.steps.push_back(step_spec(r));
  }
  if (!r.done()) fail(Fault::kModel, "damaged: bytes behind a plan");
  check_borders(plan, inputs_, entry.shapes);
  return plan;
}

}  // namespace palm
