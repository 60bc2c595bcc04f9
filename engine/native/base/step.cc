#include "base/step.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <utility>

#include "base/sort.h"

namespace palm {
namespace {

constexpr size_t kMaxCount = limit(40);

struct DTypeRow {
  const char* name;
  size_t size;
};

constexpr DTypeRow kDTypes[] = {{"float32", 4}, {"float64", 8}, {"float16", 2}, {"int8", 1},
                                {"uint8", 1},   {"int16", 2},   {"uint16", 2},  {"int32", 4},
                                {"uint32", 4},  {"int64", 8},   {"uint64", 8},  {"bool", 1},
                                {"bfloat16", 2}};

const Tensor& present(const std::vector<const Tensor*>& tensors, const char* what, size_t i) {
  if (i >= tensors.size() || !tensors[i]) fail(Fault::kModel, "%s %zu is missing", what, i);
  return *tensors[i];
}

const Tensor& typed(const std::vector<const Tensor*>& tensors, const char* what, size_t i,
                    DType dtype) {
  const Tensor& t = present(tensors, what, i);
  if (t.dtype != dtype) {
    fail(Fault::kUnsupported, "%s %zu: expected %s, got %s", what, i, name_of(dtype),
         t.text().c_str());
  }
  return t;
}

}  // namespace

DType dtype_by_name(std::string_view name) {
  for (size_t i = 0; i < std::size(kDTypes); ++i)
    if (name == kDTypes[i].name) return static_cast<DType>(i);
  fail(Fault::kUnsupported, "no dtype %s", std::string(name.substr(0, 40)).c_str());
}

const char* name_of(DType dtype) { return kDTypes[static_cast<size_t>(dtype)].name; }
size_t size_of(DType dtype) { return kDTypes[static_cast<size_t>(dtype)].size; }

size_t checked_product(size_t a, size_t b) {
  size_t product;
  if (__builtin_mul_overflow(a, b, &product) || product >= kMaxCount)
    fail(Fault::kModel, "too large: %zu times %zu", a, b);
  return product;
}

size_t checked_product(const Ints& dims) {
  size_t product = 1;
  for (int64_t dim : dims) {
    if (dim < 0) fail(Fault::kModel, "negative dim");
    product = checked_product(product, static_cast<size_t>(dim));
  }
  return product;
}

Ints dense_strides(const Ints& shape) {
  Ints strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;)
    if (__builtin_mul_overflow(strides[i], shape[i], &strides[i - 1])) strides[i - 1] = INT64_MAX;
  return strides;
}

bool is_dense(const Ints& shape, const Ints& strides) {
  int64_t expected = 1;
  for (size_t i = shape.size(); i-- > 0; expected *= shape[i])
    if (shape[i] > 1 && strides[i] != expected) return false;
  return true;
}

int64_t offset_of(size_t index, const Ints& shape, const Ints& strides) {
  int64_t offset = 0;
  for (size_t i = shape.size(); i-- > 0;) {
    const size_t size = static_cast<size_t>(shape[i]);
    offset += static_cast<int64_t>(index % size) * strides[i];
    index /= size;
  }
  return offset;
}

Tensor::Tensor(DType dtype_, std::vector<size_t> shape_)
    : Tensor(dtype_, std::move(shape_), {}) {}

Tensor::Tensor(DType dtype_, std::vector<size_t> shape_, Ints strides_)
    : dtype(dtype_), shape(std::move(shape_)), strides(std::move(strides_)), count(1) {
  size_t most = 1;  // the count if no dim were 0: strides stay small as well
  for (size_t dim : shape) {
    count *= dim;
    most = checked_product(most, dim ? dim : 1);
  }
  checked_product(most, size_of(dtype));
  if (strides.empty()) return;
  if (strides.size() != shape.size())
    fail(Fault::kModel, "%zu strides for %zu dims", strides.size(), shape.size());
  if (count == 0 || palm::is_dense({shape.begin(), shape.end()}, strides)) strides.clear();
}

Ints Tensor::all_strides() const {
  return strides.empty() ? dense_strides({shape.begin(), shape.end()}) : strides;
}

size_t Tensor::pixel() const {
  if (shape.empty()) return 1;
  for (size_t i = strides.empty() ? 0 : rank() - 1; i-- > 0;)
    if (shape[i] > 1) return static_cast<size_t>(strides[i]);
  return shape.back();
}

bool Tensor::has_pixels() const {
  if (strides.empty()) return true;
  auto expected = static_cast<int64_t>(pixel());
  if ((shape.back() > 1 && strides.back() != 1) || expected < static_cast<int64_t>(shape.back()))
    return false;
  for (size_t i = rank() - 1; i-- > 0;) {
    if (shape[i] > 1 && strides[i] != expected) return false;
    if (__builtin_mul_overflow(expected, static_cast<int64_t>(shape[i]), &expected)) return false;
  }
  return true;
}

std::string Tensor::text() const {
  std::string s = std::string(name_of(dtype)) + "[";
  for (size_t i = 0; i < shape.size(); ++i) s += (i ? ", " : "") + std::to_string(shape[i]);
  if (strides.empty()) return s + "]";
  s += "] in strides of [";
  for (size_t i = 0; i < strides.size(); ++i) s += (i ? ", " : "") + std::to_string(strides[i]);
  return s + "]";
}

const Tensor& Node::in(size_t i, DType dtype) const { return typed(inputs, "input", i, dtype); }
const Tensor& Node::out(size_t i, DType dtype) const { return typed(outputs, "output", i, dtype); }
const Tensor& Node::any_in(size_t i) const { return present(inputs, "input", i); }
const Tensor& Node::any_out(size_t i) const { return present(outputs, "output", i); }

namespace {

// Whether an array with these strides has each element in a place of its own; that it could still
// have one where this says no does not matter.
bool is_apart(const Tensor& t) {
  std::vector<std::pair<int64_t, int64_t>> dims;  // distance, last index
  for (size_t i = 0; i < t.rank(); ++i)
    if (t.shape[i] > 1)
      dims.emplace_back(std::abs(t.strides[i]), static_cast<int64_t>(t.shape[i]) - 1);
  sort_all(dims);
  int64_t reach = 0;
  for (const auto& [stride, last] : dims) {
    int64_t more;
    if (stride <= reach || __builtin_mul_overflow(stride, last, &more) ||
        __builtin_add_overflow(reach, more, &reach))
      return false;
  }
  return true;
}

void check_views(const char* names, const char* what, const std::vector<const Tensor*>& tensors) {
  const char* word = names;
  for (const Tensor* t : tensors) {
    const size_t length = std::strcspn(word, " ");
    const std::string_view operand(word, length);
    if (t && !t->is_dense()) {
      const size_t slash = operand.find('/');
      const std::string_view views = slash < length ? operand.substr(slash) : "";
      // Behind a slash may be the name of an operand whose pixels are as far from one another.
      if (views != "/strides" && (views.empty() || !t->has_pixels())) {
        fail(Fault::kModel, "%s %.*s: expected %s, got %s", what,
             static_cast<int>(std::min(slash, length)), word,
             views.empty() ? "a dense array" : "dense pixels or parts of them", t->text().c_str());
      }
    }
    const bool is_last = word[length] == 0;
    if (!is_last) word += length + 1;
  }
}

}  // namespace

void check_views(const Operands& operands, const Node& node) {
  check_views(operands.inputs, "input", node.inputs);
  check_views(operands.outputs, "output", node.outputs);
  for (const Tensor* y : node.outputs)
    if (!y->is_dense() && !is_apart(*y))
      fail(Fault::kModel, "elements of an output overlap: %s", y->text().c_str());
}

const float* Node::constant(size_t i, size_t count) const {
  if (!input(i)) return nullptr;
  const Tensor& t = in(i);
  if (!t.constant) fail(Fault::kUnsupported, "input %zu: expected a constant", i);
  if (t.count != count) {
    fail(Fault::kModel, "input %zu: expected %zu elements, got %s", i, count, t.text().c_str());
  }
  return static_cast<const float*>(t.constant);
}

void check_bounds(const char* what, const Ints& shape, const Ints& strides, int64_t offset,
                  size_t count) {
  if (shape.size() != strides.size()) {
    fail(Fault::kModel, "%s: %zu strides for %zu dims", what, strides.size(), shape.size());
  }
  for (int64_t dim : shape) {
    if (dim < 0) fail(Fault::kModel, "%s: negative dim", what);
    if (dim == 0) return;
  }
  int64_t low = offset, high = offset;
  for (size_t i = 0; i < shape.size(); ++i) {
    int64_t reach;
    if (__builtin_mul_overflow(shape[i] - 1, strides[i], &reach) ||
        __builtin_add_overflow(reach < 0 ? low : high, reach, reach < 0 ? &low : &high)) {
      fail(Fault::kModel, "%s: strides overflow", what);
    }
  }
  if (low < 0 || high >= static_cast<int64_t>(count)) {
    fail(Fault::kModel, "%s: reaches elements %lld to %lld of %zu", what,
         static_cast<long long>(low), static_cast<long long>(high), count);
  }
}

}  // namespace palm
