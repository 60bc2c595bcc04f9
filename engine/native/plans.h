#pragma once
// The plans of a model file: engine/format/plans.py has the layout. Nothing in them is trusted.
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "entropy/stored.h"
#include "program.h"

namespace palm {

// A graph input or output; a dim that is not known yet is a name.
struct Value {
  std::string name, dtype;
  std::vector<std::variant<int64_t, std::string>> dims;
};

// A plan that is ready to be a program.
struct Plan {
  struct Output {
    std::string dtype;
    Ints dims;
  };
  std::vector<Output> outputs;
  size_t arena_bytes, lower_bound_bytes;
  std::vector<std::unique_ptr<const Stored>> stored;  // of the constants that are coded
  std::vector<Array> constants;
  std::vector<TensorSpec> tensors;
  std::vector<std::string> nodes;
  std::vector<StepSpec> steps;
};

// The name of this runtime in files: plans of other backends lie beside its own.
constexpr char kBackend[] = "cpu";

class Plans {
 public:
  // `data`: where the constants lie; it must outlive the programs. Throws Error if it is damaged.
  Plans(Bytes section, Bytes data);

  const std::vector<std::string>& texts() const { return texts_; }
  const std::vector<Value>& inputs() const { return inputs_; }
  const std::vector<Value>& outputs() const { return outputs_; }
  const std::vector<std::pair<std::string, std::string>>& metadata() const { return metadata_; }
  size_t count() const { return plans_.size(); }
  const std::string& backend(size_t i) const { return plans_.at(i).backend; }
  const std::vector<Ints>& shapes(size_t i) const { return plans_.at(i).shapes; }

  // Throws Error if the plan is damaged, is another backend's, or is not for the file's inputs and
  // outputs.
  Plan read(size_t i) const;

 private:
  struct Entry {
    std::string backend;
    std::vector<Ints> shapes;
    Bytes bytes;
  };

  Bytes data_;
  std::vector<std::string> texts_;
  std::vector<Value> inputs_, outputs_;
  std::vector<std::pair<std::string, std::string>> metadata_;
  std::vector<Entry> plans_;
};

}  // namespace palm
