// Each byte's entry of a table of 256, that of the least number first; or of one of as many tables
// as the axis has elements.
#include "kernels/lookup/lookup.h"

#include <algorithm>
#include <vector>

#include "kernels/axis.h"

namespace palm {
namespace {

constexpr Operands kOperands{"x table", "y"};
constexpr size_t kX = kOperands.input("x"), kTable = kOperands.input("table");

class Lookup : public Step {
 public:
  explicit Lookup(const Node& node) : axis_(node), run_(find_lookup(node.isa)) {
    const Tensor &x = axis_.check(node.any_in(kX), axis_.size),
                 &y = axis_.check(node.any_out(), axis_.size);
    const Tensor& table = node.any_in(kTable);
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

  bool reads(size_t i) const override { return i == kX; }
  bool in_place(size_t i) const override { return i == kX; }

  void run(const Buffers& b) const override {
    const auto* const x = static_cast<const uint8_t*>(b.inputs[kX]);
    auto* const y = static_cast<uint8_t*>(b.outputs[0]);
    if (axis_.inner == 1 && axis_.size > 1) {
      b.pool->parallel(axis_.outer, grain_of(axis_.size * kWorkOfTouching),
                       [&](size_t begin, size_t end, int) { by_channel(x, y, begin, end); });
      return;
    }
    b.pool->parallel(count_, grain_of(kWork, 64), [&](size_t begin, size_t end, int) {
      while (begin < end) {
        const size_t index = begin / axis_.inner;
        const size_t n = std::min(end, (index + 1) * axis_.inner) - begin;
        run_(table_.data() + index % axis_.size * 256, n, x + begin, y + begin);
        begin += n;
      }
    });
  }

 private:
  static constexpr size_t kWork = 1;  // of a byte, where they are looked up by the dozen
  static constexpr size_t kTables = 64;  // that are used at once: the first cache holds them

  // Rows [begin, end) of elements with a table each.
  void by_channel(const uint8_t* x, uint8_t* y, size_t begin, size_t end) const {
    for (size_t channel = 0; channel < axis_.size; channel += kTables) {
      const size_t n = std::min(kTables, axis_.size - channel);
      const uint8_t* const tables = table_.data() + channel * 256;
      for (size_t row = begin; row < end; ++row) {
        const size_t at = row * axis_.size + channel;
        _Pragma("GCC unroll 8") for (size_t i = 0; i < n; ++i)
          y[at + i] = tables[i * 256 + x[at + i]];
      }
    }
  }

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
  PALM_EVERY_SET_WAS_TRIED;
}

PALM_OPERANDS(lookup, kOperands)
StepPtr make_lookup(const Node& node) { return std::make_unique<Lookup>(node); }

}  // namespace palm
