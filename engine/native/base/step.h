#pragma once
// What a plan's step is made of, and what a kernel makes of it.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/arena.h"
#include "base/attrs.h"
#include "base/error.h"
#include "base/threads.h"

namespace palm {

enum class DType {
  kFloat32,
  kFloat64,
  kFloat16,
  kInt8,
  kUint8,
  kInt16,
  kUint16,
  kInt32,
  kUint32,
  kInt64,
  kUint64,
  kBool,
  kBfloat16
};

// The type called `name` as numpy has it; throws Error if there is none.
DType dtype_by_name(std::string_view name);
const char* name_of(DType dtype);
size_t size_of(DType dtype);

// An array: what it is, not where it lies. It is dense and row-major, or a part of memory that
// strides reach.
struct Tensor {
  Tensor(DType dtype, std::vector<size_t> shape);
  // strides: in elements, one a dim.
  Tensor(DType dtype, std::vector<size_t> shape, Ints strides);

  size_t rank() const { return shape.size(); }
  bool is_dense() const { return strides.empty(); }
  size_t bytes() const { return count * size_of(dtype); }
  std::string text() const;  // "float32[1, 2, 3]", or "float32[1, 2, 3] in strides of [8, 4, 1]"

  // Those of each dim, whether it is dense or not.
  Ints all_strides() const;
  // Whether the last dim lies dense, and so do the runs of it, the pixels, but for a distance: a
  // dense array does, and so do some channels of wider pixels. Elements from one to the next.
  bool has_pixels() const;
  size_t pixel() const;

  DType dtype;
  std::vector<size_t> shape;
  Ints strides;                    // none if it is dense
  size_t count;                    // elements, less than 2^40
  const void* constant = nullptr;  // its data, if that is known for good
};

// One step as the plan has it, which must outlive this. Input and output pointers are null where an
// optional one is left out.
struct Node {
  const Tensor* input(size_t i) const { return i < inputs.size() ? inputs[i] : nullptr; }

  // These throw Error where the tensor is absent, or of another type or rank than said.
  const Tensor& in(size_t i, DType dtype = DType::kFloat32) const;
  const Tensor& out(size_t i = 0, DType dtype = DType::kFloat32) const;
  const Tensor& any_in(size_t i) const;
  const Tensor& any_out(size_t i = 0) const;

  // Data of input i, float32 and of `count` elements; null if it is left out. Throws Error unless
  // it is constant.
  const float* constant(size_t i, size_t count) const;

  std::vector<const Tensor*> inputs, outputs;
  const Attrs& attrs;
  uint32_t isa;
};

// What a step works on. `scratch` is of the size it asked for, and its own while it runs.
struct Buffers {
  const void* const* inputs;
  void* const* outputs;
  char* scratch;
  Pool* pool;
  Bytes next;  // what a later step reads: see Step::weights_read

  const float* in(size_t i) const { return static_cast<const float*>(inputs[i]); }
  float* out(size_t i = 0) const { return static_cast<float*>(outputs[i]); }
};

// A kernel made ready for one node; immutable.
class Step {
 public:
  virtual ~Step() = default;
  virtual void run(const Buffers& buffers) const = 0;
  virtual size_t scratch_bytes(int /*threads*/) const { return 0; }
  // False if a run does not look at input i, should that be constant.
  virtual bool reads(size_t /*i*/) const { return true; }
  // What every run reads of memory of its own, if that is much: an earlier step may ask for it.
  virtual Bytes weights_read() const { return {}; }
  // True if the first output may be input i, bit for bit the same memory.
  virtual bool in_place(size_t /*i*/) const { return false; }
};

using StepPtr = std::unique_ptr<const Step>;

// The names of a kernel's inputs and outputs, in the order in which its steps have them, separated
// by spaces. A name that ends in an asterisk stands for any number of inputs. Behind a slash stands
// which arrays it may be besides dense ones: "/pixels" those of Tensor::has_pixels, "/strides" any,
// another operand's name those whose pixels are as far from one another as that one's.
struct Operands {
  const char *inputs, *outputs;

  // The place of an operand; as a constant, a name that is not there does not compile.
  constexpr size_t input(std::string_view name) const { return place(inputs, name); }
  constexpr size_t output(std::string_view name) const { return place(outputs, name); }

  static constexpr size_t place(std::string_view names, std::string_view name) {
    for (size_t found = 0;; ++found) {
      const size_t end = names.find(' ');
      const std::string_view operand = names.substr(0, end);
      if (operand.substr(0, operand.find('/')) == name) return found;
      if (end == std::string_view::npos) fail(Fault::kBackend, "no operand of that name");
      names.remove_prefix(end + 1);
    }
  }
};
// Stands beside make_<kernel>, with its Operands or what they are made of; whoever makes plans asks
// for them by name.
#define PALM_OPERANDS(kernel, ...)             \
  extern const Operands operands_of_##kernel; \
  const Operands operands_of_##kernel{__VA_ARGS__};

// a * b, or Error if that is 2^40 or more.
size_t checked_product(size_t a, size_t b);
size_t checked_product(const Ints& dims);  // Error as well where a dim is negative

// Throws Error if an operand of the node is not dense where its kernel needs it to be, or if an
// output's elements lie over one another.
void check_views(const Operands& operands, const Node& node);

// The strides of a C-contiguous array; INT64_MAX for what is beyond. Are they `strides`?
Ints dense_strides(const Ints& shape);
bool is_dense(const Ints& shape, const Ints& strides);

// Where element `index`, counted row-major over `shape`, begins.
int64_t offset_of(size_t index, const Ints& shape, const Ints& strides);

// Throws Error unless every element that begins at `offset` and is reached by shape and strides
// lies in [0, count).
void check_bounds(const char* what, const Ints& shape, const Ints& strides, int64_t offset,
                  size_t count);

}  // namespace palm
