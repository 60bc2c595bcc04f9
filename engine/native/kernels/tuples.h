#pragma once
#include "kernels/indices.h"

namespace palm {

// Tuples of indices, each of which names a run of `inner` elements of an array whose first dims are
// `batch` and then `dims`; from the attributes of these names. Tuples lie batch by batch.
class Tuples {
 public:
  Tuples(const Node& node, size_t input)
      : batch_(node.attrs.size("batch", 1)),
        inner_(node.attrs.size("inner")),
        dims_(node.attrs.integers("dims")),
        indices_(node.any_in(input)) {
    const size_t count = node.any_in(input).count;
    whole_ = checked_product(dims_);
    if (dims_.empty() || count % checked_product(batch_, dims_.size()))
      fail(Fault::kModel, "%zu indices for %zu tuples of %zu", count, batch_, dims_.size());
    per_batch_ = count / dims_.size() / batch_;
  }

  size_t count() const { return batch_ * per_batch_; }
  size_t inner() const { return inner_; }
  size_t array() const { return checked_product(checked_product(batch_, whole_), inner_); }

  // Which run tuple k names; throws Error if that is outside.
  size_t run(const void* indices, size_t k) const {
    size_t at = k / per_batch_;
    for (size_t d = 0; d < dims_.size(); ++d) {
      const size_t size = static_cast<size_t>(dims_[d]);
      at = at * size + indices_.at(indices, k * dims_.size() + d, size);
    }
    return at;
  }

 private:
  size_t batch_, inner_, whole_, per_batch_;
  Ints dims_;
  Indices indices_;
};

}  // namespace palm
