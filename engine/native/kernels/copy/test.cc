// Random strided views against a loop.
#include <algorithm>

#include "base/check.h"
#include "base/one_step.h"

namespace {

using namespace palm;

struct View {
  Ints shape, strides;
  int64_t offset = 0, count = 1;  // of the array that it looks into
};

std::vector<size_t> sizes_of(const Ints& shape) { return {shape.begin(), shape.end()}; }

// Dims in a random order, with gaps, and some of them backwards.
View make_view(const Ints& shape, Random& random) {
  View v;
  v.shape = shape;
  v.strides.resize(shape.size());
  std::vector<size_t> order(shape.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  for (size_t i = 1; i < order.size(); ++i) std::swap(order[i], order[random.between(0, i)]);
  for (size_t i : order) {
    const int64_t gap = random.between(0, 3) ? 1 : 2;
    v.strides[i] = v.count * gap;
    v.count *= gap * std::max<int64_t>(shape[i], 1);
    if (random.between(0, 4) == 0 && shape[i] > 0) {
      v.offset += v.strides[i] * (shape[i] - 1);
      v.strides[i] = -v.strides[i];
    }
  }
  v.offset += 2;
  v.count += 3;
  return v;
}

void check(Random& random, const Ints& shape, int threads) {
  const View from = make_view(shape, random), to = make_view(shape, random);
  const Vector x = random.floats(static_cast<size_t>(from.count));
  Vector y(static_cast<size_t>(to.count), 77.f), expected = y;
  int64_t total = 1;
  for (int64_t size : shape) total *= size;
  for (int64_t i = 0; i < total; ++i) {
    int64_t rest = i, a = from.offset, b = to.offset;
    for (size_t d = shape.size(); d-- > 0; rest /= shape[d]) {
      a += rest % shape[d] * from.strides[d];
      b += rest % shape[d] * to.strides[d];
    }
    expected[static_cast<size_t>(b)] = x[static_cast<size_t>(a)];
  }
  OneStep("copy")
      .input({x.size()}, x)
      .seen_as(sizes_of(shape), from.strides, from.offset)
      .output({y.size()})
      .seen_as(sizes_of(shape), to.strides, to.offset)
      .make(kScalar, threads)
      .run(y.data(), y.size());
  PALM_CHECK(y == expected, "a view of %zu dims, %lld elements differs", shape.size(),
             static_cast<long long>(total));
}

// Pixels to planes and back.
void check_transpose(Random& random, int64_t channels, int64_t pixels) {
  const size_t count = static_cast<size_t>(channels * pixels);
  const Vector x = random.floats(count);
  for (bool to_planes : {false, true}) {
    Vector y(count + 1, 77.f);
    const auto shape = sizes_of(to_planes ? Ints{channels, pixels} : Ints{pixels, channels});
    OneStep("copy")
        .input({count}, x)
        .seen_as(shape, to_planes ? Ints{1, channels} : Ints{1, pixels}, 0)
        .output({count})
        .seen_as(shape, to_planes ? Ints{pixels, 1} : Ints{channels, 1}, 0)
        .make(kScalar, 2)
        .run(y.data(), count);
    for (int64_t i = 0; i < channels * pixels; ++i) {
      const int64_t from =
          to_planes ? i % pixels * channels + i / pixels : i % channels * pixels + i / channels;
      PALM_CHECK(y[static_cast<size_t>(i)] == x[static_cast<size_t>(from)],
                 "%lld channels, to planes %d", static_cast<long long>(channels), to_planes);
    }
    PALM_CHECK(y[count] == 77.f, "wrote past the end");
  }
}

}  // namespace

int main() {
  Random random;
  for (int trial = 0; trial < 600; ++trial) {
    Ints shape;
    for (size_t d = random.between(0, 5); d-- > 0;)
      shape.push_back(static_cast<int64_t>(random.between(trial % 50 == 0 ? 0 : 1, 7)));
    check(random, shape, 1 + trial % 2);
  }
  // Large enough to be shared out, in parts that end within a plane.
  for (int threads = 1; threads < 4; ++threads)
    for (const Ints& shape : {Ints{3025, 19}, Ints{3, 1009, 7}, Ints{1009, 67}, Ints{67, 1009}})
      for (int trial = 0; trial < 4; ++trial) check(random, shape, threads);
  for (int64_t channels = 1; channels < 6; ++channels) {
    check_transpose(random, channels, 1000);
    check_transpose(random, channels, 20011);
  }
  for (int trial = 0; trial < 20; ++trial)
    check(random, {130, 70}, 2), check(random, {16, 9, 300}, 3);
}
