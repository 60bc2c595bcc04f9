// Each byte's entry of a table of 256, that of the least number first; or of one of as many tables
// as the axis has elements.
#include <cstring>
#include <vector>

#include "kernels/axis.h"

namespace palm {
namespace {

class Lookup : public Step {
 public:
  explicit Lookup(const Node& node) : axis_(node) {
    const Tensor &x = axis_.check(node.any_in(0), axis_.size),
                 &y = axis_.check(node.any_out(), axis_.size);
    const Tensor& table = node.any_in(1);
    for (const Tensor* t : {&x, &y, &table})
      if (t->dtype != DType::kInt8 && t->dtype != DType::kUint8)
        fail(Fault::kUnsupported, "%s", t->text().c_str());
    tables_ = table.count / 256;
    if (!table.constant || table.count % 256 || y.dtype != table.dtype ||
        (tables_ != 1 && tables_ != axis_.size)) {
      fail(Fault::kModel, "table %s", table.text().c_str());
    }
    // By the bits of x.
    const auto* const from = static_cast<const uint8_t*>(table.constant);
    const size_t turn = x.dtype == DType::kInt8 ? 128 : 0;
    for (size_t i = 0; i < table.count; ++i) table_.push_back(from[i ^ turn]);
    if (tables_ == 1) axis_.inner = axis_.lines() * axis_.size, axis_.outer = axis_.size = 1;
    count_ = x.count;
  }

  bool reads(size_t i) const override { return i == 0; }
  bool in_place(size_t i) const override { return i == 0; }

  void run(const Buffers& b) const override {
    const auto* const x = static_cast<const uint8_t*>(b.inputs[0]);
    auto* const y = static_cast<uint8_t*>(b.outputs[0]);
    b.pool->parallel(count_, grain_of(kWorkOfTouching, 64), [&](size_t begin, size_t end, int) {
      if (axis_.inner == 1) return by_channel(x, y, begin, end);
      while (begin < end) {
        const size_t left = axis_.inner - begin % axis_.inner;
        const size_t stop = end - begin < left ? end : begin + left;
        const uint8_t* const table = table_.data() + begin / axis_.inner % axis_.size * 256;
        for (; begin < stop; ++begin) y[begin] = table[x[begin]];
      }
    });
  }

 private:
  void by_channel(const uint8_t* x, uint8_t* y, size_t begin, size_t end) const {
    size_t channel = begin % axis_.size;
    const uint8_t* const tables = table_.data();
    for (; begin < end; ++begin) {
      y[begin] = tables[channel * 256 + x[begin]];
      channel = channel + 1 == axis_.size ? 0 : channel + 1;
    }
  }

  Axis axis_;
  std::vector<uint8_t> table_;
  size_t tables_, count_;
};

}  // namespace

StepPtr make_lookup(const Node& node) { return std::make_unique<Lookup>(node); }

}  // namespace palm
