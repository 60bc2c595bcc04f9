// Each byte's entry of a table of 256, that of the least number first; or of one of as many tables
// as the axis has elements.
#include "kernels/lookup/lookup.h"

#include <algorithm>
#include <vector>

#include "kernels/axis.h"

namespace palm {
namespace {

class Lookup : public Step {
 public:
  explicit Lookup(const Node& node) : axis_(node), run_(find_lookup(node.isa)) {
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
    const bool by_channel = axis_.inner == 1 && axis_.size > 1;
    const Grain grain = grain_of(by_channel ? kWorkOfTouching : kWork, 64);
    b.pool->parallel(count_, grain, [&](size_t begin, size_t end, int) {
      while (begin < end) {
        const size_t index = begin / axis_.inner, channel = index % axis_.size;
        const uint8_t* const table = table_.data() + channel * 256;
        size_t n;
        if (by_channel) {
          n = std::min(end - begin, axis_.size - channel);
          for (size_t i = 0; i < n; ++i) y[begin + i] = table[i * 256 + x[begin + i]];
        } else {
          n = std::min(end, (index + 1) * axis_.inner) - begin;
          run_(table, n, x + begin, y + begin);
        }
        begin += n;
      }
    });
  }

 private:
  static constexpr size_t kWork = 1;  // of a byte, where they are looked up by the dozen

  Axis axis_;
  LookupFn run_;
  std::vector<uint8_t> table_;
  size_t tables_, count_;
};

}  // namespace

#if !defined(__aarch64__)
void lookup_scalar(const uint8_t* table, size_t n, const uint8_t* x, uint8_t* y) {
  for (size_t i = 0; i < n; ++i) y[i] = table[x[i]];
}
#endif

LookupFn find_lookup(uint32_t isa) {
#define PALM_KERNEL(need, name) \
  if ((isa & (need)) == (need)) return &name;
#include "kernels/lookup/kernels.inc"
#undef PALM_KERNEL
}

StepPtr make_lookup(const Node& node) { return std::make_unique<Lookup>(node); }

}  // namespace palm
