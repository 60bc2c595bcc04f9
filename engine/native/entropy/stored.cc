#include "entropy/stored.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/half.h"

namespace palm {
namespace {

constexpr int kMostNested = 4;

template <class T>
T take(Bytes& recipe) {
  T value;
  if (recipe.size < sizeof value) fail(Fault::kModel, "damaged: a constant's recipe is cut short");
  std::memcpy(&value, recipe.data, sizeof value);
  recipe = {recipe.data + sizeof value, recipe.size - sizeof value};
  return value;
}

struct Run {
  Run(const uint8_t* from_, size_t size_) : from(from_), size(size_), coding(Coding::kPlain) {}

  Run(Bytes& recipe, Bytes data) {
    const auto offset = take<uint64_t>(recipe), bytes = take<uint64_t>(recipe);
    coding = static_cast<Coding>(take<uint8_t>(recipe));
    if (offset > data.size || bytes > data.size - offset)
      fail(Fault::kModel, "damaged: a constant lies outside the file");
    from = reinterpret_cast<const uint8_t*>(data.data) + offset;
    size = bytes;
  }

  void decode(void* to, size_t count) const {
    decode_bytes(coding, from, size, static_cast<uint8_t*>(to), count);
  }

  const uint8_t* from;
  size_t size;
  Coding coding;
};

std::unique_ptr<const Stored> read(Bytes& recipe, Bytes data, DType dtype, size_t count, int depth);

struct Raw : Stored {
  Raw(Bytes& recipe, Bytes data, DType dtype, size_t count)
      : run(recipe, data), bytes(checked_product(count, size_of(dtype))) {
    if (dtype == DType::kBool) fail(Fault::kModel, "damaged: bool constants are not coded");
  }
  void decode(void* to) const override { run.decode(to, bytes); }
  Run run;
  size_t bytes;
};

struct Half : Stored {
  Half(Run run_, size_t count_) : run(run_), count(count_) {}
  void decode(void* to) const override {
    if (run.coding == Coding::kPlain && run.size == 2 * count)
      return widen_halves(run.from, count, static_cast<float*>(to));
    std::vector<uint16_t> halves(count);
    run.decode(halves.data(), 2 * count);
    widen_halves(halves.data(), count, static_cast<float*>(to));
  }
  Run run;
  size_t count;
};

struct Quantized : Stored {
  Quantized(Bytes& recipe, Bytes data, size_t count, int depth)
      : inner(take<uint64_t>(recipe)),
        scales(take<uint32_t>(recipe)),
        scale(read(recipe, data, DType::kFloat32, scales, depth)),
        run(recipe, data),
        count(count) {
    if (!scales || checked_product(inner, scales) == 0 || count % (inner * scales))
      fail(Fault::kModel, "damaged: scales do not fit a constant");
  }
  void decode(void* to) const override {
    std::vector<float> s(scales);
    scale->decode(s.data());
    std::vector<int8_t> q(count);
    run.decode(q.data(), count);
    float* y = static_cast<float*>(to);
    const int8_t* x = q.data();
    for (size_t begin = 0; begin < count; begin += inner * scales)
      for (size_t c = 0; c < scales; ++c)
        for (size_t i = 0; i < inner; ++i) *y++ = static_cast<float>(*x++) * s[c];
  }
  size_t inner, scales;
  std::unique_ptr<const Stored> scale;
  Run run;
  size_t count;
};

struct Sparse : Stored {
  enum Kind : uint8_t { kBitmap, kGaps8, kGaps16, kIndices32 };

  Sparse(Bytes& recipe, Bytes data, DType dtype, size_t count, int depth)
      : kind(take<uint8_t>(recipe)),
        item(size_of(dtype)),
        count(count),
        kept(take<uint64_t>(recipe)),
        positions(recipe, data),
        values(read(recipe, data, dtype, kept <= count ? kept : 0, depth)) {
    if (kept > count || kind > kIndices32)
      fail(Fault::kModel, "damaged: positions do not fit a constant");
  }

  void decode(void* to) const override {
    std::vector<char> elements(kept * item);
    values->decode(elements.data());
    char* const out = static_cast<char*>(to);
    std::fill_n(out, count * item, 0);
    const size_t width = kind == kGaps16 ? 2 : kind == kIndices32 ? 4 : 1;
    std::vector<uint8_t> bytes(kind == kBitmap ? (count + 7) / 8 : kept * width);
    positions.decode(bytes.data(), bytes.size());
    if (kind == kBitmap) return from_bitmap(bytes, elements, out);
    size_t next = 0;
    for (size_t i = 0; i < kept; ++i) {
      uint32_t number = 0;
      std::memcpy(&number, &bytes[i * width], width);
      const size_t place = kind == kIndices32 ? number : next + number;
      if (place >= count || place < next) damaged();
      next = place + 1;
      std::memcpy(out + place * item, &elements[i * item], item);
    }
  }

  void from_bitmap(const std::vector<uint8_t>& bytes, const std::vector<char>& elements,
                   char* out) const {
    size_t next = 0;
    for (size_t i = 0; i < bytes.size(); ++i) {
      for (unsigned bits = bytes[i]; bits; bits &= bits - 1) {
        const size_t place = 8 * i + static_cast<size_t>(__builtin_ctz(bits));
        if (place >= count || next == kept) damaged();
        std::memcpy(out + place * item, &elements[next++ * item], item);
      }
    }
    if (next != kept) damaged();
  }

  [[noreturn]] static void damaged() {
    fail(Fault::kModel, "damaged: positions do not fit a constant");
  }

  uint8_t kind;
  size_t item, count, kept;
  Run positions;
  std::unique_ptr<const Stored> values;
};

struct Codebook : Stored {
  Codebook(Bytes& recipe, Bytes data, DType dtype, size_t count)
      : bits(take<uint8_t>(recipe)),
        entries(take<uint32_t>(recipe)),
        item(size_of(dtype)),
        count(count),
        book(recipe, data),
        indices(recipe, data) {
    if (!bits || bits > 16 || entries > size_t{1} << bits || dtype == DType::kBool)
      fail(Fault::kModel, "damaged: a codebook of %u bits with %zu entries", unsigned{bits},
           entries);
  }

  void decode(void* to) const override {
    std::vector<char> table(entries * item);
    book.decode(table.data(), table.size());
    std::vector<uint8_t> packed((checked_product(count, bits) + 7) / 8);
    indices.decode(packed.data(), packed.size());
    if (item == 4) return look_up<uint32_t>(table, packed, to);
    if (item == 2) return look_up<uint16_t>(table, packed, to);
    if (item == 1) return look_up<uint8_t>(table, packed, to);
    look_up<uint64_t>(table, packed, to);
  }

  template <class T>
  void look_up(const std::vector<char>& table, const std::vector<uint8_t>& packed, void* to) const {
    // What has no entry is found afterwards: the loop then has no branch.
    std::vector<T> all(size_t{1} << bits);
    std::copy(table.begin(), table.end(), reinterpret_cast<char*>(all.data()));
    T* const out = static_cast<T*>(to);
    const size_t mask = (size_t{1} << bits) - 1;
    size_t most = 0, word = 0;
    unsigned left = 0;
    const uint8_t* at = packed.data();
    for (size_t i = 0; i < count; ++i) {
      for (; left < bits; left += 8) word |= static_cast<size_t>(*at++) << left;
      const size_t index = word & mask;
      word >>= bits;
      left -= bits;
      most = index > most ? index : most;
      out[i] = all[index];
    }
    if (count && most >= entries) fail(Fault::kModel, "damaged: a codebook has no entry %zu", most);
  }

  uint8_t bits;
  size_t entries, item, count;
  Run book, indices;
};

std::unique_ptr<const Stored> read(Bytes& recipe, Bytes data, DType dtype, size_t count,
                                   int depth) {
  if (depth > kMostNested) fail(Fault::kModel, "damaged: a constant's recipe is too deep");
  const auto kind = take<uint8_t>(recipe);
  const bool is_float = dtype == DType::kFloat32;
  if (kind == 0) return std::make_unique<Raw>(recipe, data, dtype, count);
  if (kind == 1 && is_float) return std::make_unique<Half>(Run(recipe, data), count);
  if (kind == 2 && is_float) return std::make_unique<Quantized>(recipe, data, count, depth + 1);
  if (kind == 3) return std::make_unique<Sparse>(recipe, data, dtype, count, depth + 1);
  if (kind == 4) return std::make_unique<Codebook>(recipe, data, dtype, count);
  fail(Fault::kModel, "damaged: %s constants are not stored as %u", name_of(dtype), unsigned{kind});
}

}  // namespace

std::unique_ptr<const Stored> half_at(const char* halves, size_t count) {
  return std::make_unique<Half>(Run(reinterpret_cast<const uint8_t*>(halves), 2 * count), count);
}

std::unique_ptr<const Stored> read_stored(Bytes& recipe, Bytes data, DType dtype, size_t count) {
  if (checked_product(count, size_of(dtype)) > size_t{1} << 31)
    fail(Fault::kShape, "damaged: a constant is too large");
  return read(recipe, data, dtype, count, 0);
}

}  // namespace palm
