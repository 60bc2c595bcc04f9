#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/arena.h"
#include "base/check.h"
#include "base/crc32.h"
#include "base/half.h"
#include "base/runner.h"
#include "base/step.h"
#include "base/threads.h"

namespace {

using namespace palm;

// One loop: every index once, in parts that begin at multiples of the unit, no two at a time by
// the same thread. Now and then a part takes long.
void check_loop(Pool& pool, size_t count, Grain grain, Random& random) {
  const size_t threads = static_cast<size_t>(pool.threads());
  std::vector<std::atomic<uint8_t>> hits(count);
  std::vector<std::atomic<bool>> at_work(threads);
  std::atomic<int> bad_parts{0};
  const size_t slow = random.between(0, 63);
  pool.parallel(count, grain, [&](size_t begin, size_t end, int t) {
    const size_t thread = static_cast<size_t>(t);
    if (thread >= threads || at_work[thread].exchange(true)) ++bad_parts;
    if (begin % grain.unit || begin >= end || end > count) ++bad_parts;
    if (slow == thread) std::this_thread::sleep_for(std::chrono::microseconds(200));
    for (size_t i = begin; i < end; ++i) ++hits[i];
    if (!at_work[thread].exchange(false)) ++bad_parts;
  });
  for (size_t i = 0; i < count; ++i)
    PALM_CHECK(hits[i] == 1, "%zu of %zu ran %d times", i, count, hits[i].load());
  PALM_CHECK(bad_parts == 0, "count %zu, unit %zu, least %zu", count, grain.unit, grain.least);
}

void check_pool(int threads, int rounds) {
  Pool pool(threads);
  Random random;
  PALM_CHECK(pool.threads() == threads, "%d threads", pool.threads());
  for (int round = 0; round < rounds; ++round) {
    const size_t most = round % 100 == 0 ? 300000 : round % 10 == 0 ? 5000 : 40;
    check_loop(pool, random.between(0, most), {random.between(1, 5), random.between(1, 9)}, random);
    // Now and then the workers fall asleep, or are about to.
    if (round % 50 == 0)
      std::this_thread::sleep_for(std::chrono::microseconds(random.between(0, 199)));
  }
}

// Two callers, each with a pool, on fewer cores than threads.
void check_two_pools() {
  std::thread other([] { check_pool(3, 500); });
  check_pool(4, 500);
  other.join();
}

// Loops that find the workers in every stage of falling asleep.
void check_sleep() {
  Pool pool(2);
  for (int round = 0; round < 3000; ++round) {
    std::atomic<int> sum{0};
    pool.parallel(64, {1, 1},
                  [&](size_t begin, size_t end, int) { sum += static_cast<int>(end - begin); });
    PALM_CHECK(sum == 64, "%d of 64", sum.load());
    const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(round % 75);
    while (std::chrono::steady_clock::now() < until) {}
  }
}

// A worker does take part, and the caller does what a worker is too late for.
void check_sharing() {
  Pool pool(2);
  std::set<int> seen;
  std::mutex mutex;
  for (int round = 0; round < 100 && seen.size() < 2; ++round) {
    pool.parallel(2, {1, 1}, [&](size_t, size_t, int thread) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      std::lock_guard<std::mutex> lock(mutex);
      seen.insert(thread);
    });
  }
  PALM_CHECK(seen.size() == 2, "%zu threads took part", seen.size());
  std::atomic<int> parts{0};
  pool.parallel(7, {1, 8}, [&](size_t, size_t, int thread) { parts += thread == 0 ? 1 : 100; });
  PALM_CHECK(parts == 1, "a loop that is not worth a thread");
}

// Bodies that throw: every part is done, the first failure is the one that arrives, and the pool
// works on.
void check_throwing() {
  Pool pool(4);
  Random random;
  for (int round = 0; round < 2000; ++round) {
    const size_t count = random.between(1, 200), bad = random.between(0, count - 1);
    std::vector<std::atomic<uint8_t>> hits(count);
    std::string told;
    try {
      pool.parallel(count, {1, 1}, [&](size_t begin, size_t end, int) {
        if (round % 3 == 0) std::this_thread::yield();
        for (size_t i = begin; i < end; ++i) ++hits[i];
        for (size_t i = std::max(begin, bad); i < end; ++i)
          fail(Fault::kShape, "%zu", i);
      });
    } catch (const Error& error) { told = error.what(); }
    PALM_CHECK(told == std::to_string(bad), "round %d: %zu of %zu threw, got '%s'", round, bad,
               count, told.c_str());
    for (size_t i = 0; i < count; ++i) PALM_CHECK(hits[i] == 1, "%zu of %zu", i, count);
    std::atomic<size_t> sum{0};
    pool.parallel(count, {1, 1}, [&](size_t begin, size_t end, int) { sum += end - begin; });
    PALM_CHECK(sum == count, "a loop after one that threw");
  }
}

// A loop that takes long is done in parts, also by one thread, and ends where its caller says so.
void check_interrupts() {
  constexpr size_t kPart = 4, kCount = 1000;
  const Grain grain = grain_of((size_t{1} << 30) / kPart);
  for (int threads = 1; threads <= 3; ++threads) {
    Watch watch;
    Pool pool(threads, false, &watch);
    std::atomic<size_t> done{0}, longest{0};
    const auto body = [&](size_t begin, size_t end, int) {
      if (end - begin > kPart) longest = end - begin;
      std::this_thread::sleep_for(std::chrono::milliseconds(threads));
      done += end - begin;
    };
    struct Asked {
      int times;
      bool answer;
    } asked{0, true};
    const Watch::Ask ask = [](void* data) {
      ++static_cast<Asked*>(data)->times;
      return static_cast<Asked*>(data)->answer;
    };
    watch.begin(ask, &asked);
    for (int i = 0; i < 3; ++i) pool.parallel(kCount, grain, body);
    PALM_CHECK(done == 3 * kCount && longest == 0, "%zu done, a part of %zu", done.load(),
               longest.load());
    PALM_CHECK(asked.times > 0, "nobody asked");
    done = 0, asked.answer = false;
    watch.begin(ask, &asked);
    PALM_CHECK(refuses([&] {
                 for (int i = 0; i < 100; ++i) pool.parallel(kCount, grain, body);
               }),
               "went on");
    PALM_CHECK(done < 100 * kCount, "all was done");
    watch.begin(nullptr, nullptr);
    done = 0;
    pool.parallel(kCount, grain, body);
    PALM_CHECK(done == kCount, "the run after one that was ended");
  }
}

// With slices a thread looks after a part of each, which long loops are cut into.
void check_slices() {
  constexpr size_t kCount = 1000, kLong = size_t{1} << 30;
  const Grain grain = grain_of(kLong / kCount);
  for (int threads = 1; threads <= 2; ++threads) {
    Watch watch;
    Pool pool(threads, false, &watch);
    std::atomic<size_t> longest{0};
    const auto body = [&](size_t begin, size_t end, int) {
      size_t known = longest;
      while (known < end - begin && !longest.compare_exchange_weak(known, end - begin)) {}
    };
    watch.begin(nullptr, nullptr);
    pool.parallel(kCount, grain, body);
    PALM_CHECK(longest > kCount / 10, "without slices the longest part is %zu", longest.load());
    longest = 0;
    watch.begin(nullptr, nullptr, std::chrono::milliseconds(4));
    pool.parallel(kCount, grain, body);
    PALM_CHECK(longest <= kCount / 10, "of slices the longest part is %zu", longest.load());
  }
}

// A runner does everything in one other thread, and hands on what is thrown there.
void check_runner() {
  Runner runner(Placement{Priority::kLow, {}});
  std::thread::id first, second;
  runner.run([&] { first = std::this_thread::get_id(); });
  PALM_CHECK(refuses([&] { runner.run([] { fail(Fault::kBackend, "no"); }); }), "nothing thrown");
  runner.run([&] { second = std::this_thread::get_id(); });
  PALM_CHECK(first == second && first != std::this_thread::get_id(), "not in a thread of its own");
  PALM_CHECK(refuses([] { Runner(Placement{Priority::kNormal, {1 << 30}}); }), "no such core");
}

void check_bounds() {
  const auto bad = [](Ints shape, Ints strides, int64_t offset, size_t count) {
    return refuses([&] { palm::check_bounds("x", shape, strides, offset, count); });
  };
  PALM_CHECK(!bad({2, 3}, {3, 1}, 0, 6), "a dense view");
  PALM_CHECK(!bad({2, 3}, {-3, -1}, 5, 6), "a view from the end");
  PALM_CHECK(!bad({0, 3}, {1, 1}, 99, 6), "an empty view");
  PALM_CHECK(!bad({}, {}, 5, 6), "one element");
  PALM_CHECK(bad({}, {}, 6, 6), "one past the end");
  PALM_CHECK(bad({2, 3}, {3, 1}, 1, 6), "one past the end");
  PALM_CHECK(bad({2, 3}, {-3, 1}, 0, 6), "before the start");
  PALM_CHECK(bad({2}, {1, 1}, 0, 6), "more strides than dims");
  PALM_CHECK(bad({-1}, {1}, 0, 6), "a negative dim");
  PALM_CHECK(bad({INT64_MAX, 3}, {INT64_MAX, 1}, 0, 6), "an overflow");
  PALM_CHECK(bad({3, 3}, {INT64_MAX / 2, INT64_MAX / 2}, INT64_MAX, 6), "an overflow");
}

void check_strides() {
  PALM_CHECK(dense_strides({2, 3, 4}) == (Ints{12, 4, 1}) && dense_strides({}).empty(), "dense");
  PALM_CHECK(dense_strides({2, INT64_MAX, 3})[0] == INT64_MAX, "strides beyond the range");
  PALM_CHECK(is_dense({2, 3, 1}, {3, 1, 99}), "the stride of a dim of 1 counts for nothing");
  PALM_CHECK(!is_dense({2, 3}, {1, 2}) && !is_dense({2, 3}, {0, 1}), "a transpose, a broadcast");
  PALM_CHECK(offset_of(4, {2, 3}, {-10, 2}) == -8, "element (1, 1)");
  PALM_CHECK(checked_product(Ints{2, 3}) == 6 && checked_product(Ints{}) == 1, "a product");
  PALM_CHECK(refuses([] { checked_product(Ints{2, -3}); }), "a negative dim");
  PALM_CHECK(refuses([] { checked_product(Ints{INT64_MAX, INT64_MAX}); }), "an overflow");
}

void check_tensor() {
  PALM_CHECK(refuses([] { Tensor(DType::kFloat32, {size_t{1} << 39, 4}); }), "2^41 elements");
  PALM_CHECK(refuses([] { Tensor(DType::kUint8, {SIZE_MAX, 0, SIZE_MAX}); }), "huge dims and a 0");
  PALM_CHECK(Tensor(DType::kFloat32, {2, 3}).text() == "float32[2, 3]", "text");
  PALM_CHECK(Tensor(DType::kInt64, {}).count == 1, "a scalar");
}

void check_attrs() {
  Attrs attrs;
  attrs.set("i", int64_t{2});
  attrs.set("f", 0.5);
  attrs.set("s", std::string("max"));
  attrs.set("l", Ints{1, 2});
  attrs.set("i", int64_t{3});
  PALM_CHECK(attrs.integer("i") == 3 && attrs.number("i") == 3.f, "an integer");
  PALM_CHECK(attrs.number("f") == 0.5f && attrs.text("s") == "max", "a number, a string");
  PALM_CHECK(refuses([&] { attrs.check_all_read(); }), "l was not read");
  PALM_CHECK(attrs.size("i") == 3 && refuses([&] { attrs.size("i", 4); }), "a size");
  PALM_CHECK(attrs.integers("l", Ints{0, 0}) == (Ints{1, 2}), "a list");
  PALM_CHECK(refuses([&] { attrs.integers("l", Ints{0}); }), "a list of the wrong size");
  PALM_CHECK(refuses([&] { attrs.integer("s"); }) && refuses([&] { attrs.integer("absent"); }),
             "kinds");
  attrs.check_all_read();
}

// Whether a region is memory of its own: elsewhere it leaves all to the system.
#if defined(__linux__)
constexpr bool kHasRegions = true;
#else
constexpr bool kHasRegions = false;
#endif

void check_arenas() {
  Arena kept;
  {
    Region region(1 << 20, 4 << 20);
    const Region::Use use(region);
    Arena first(100), second(1000), large(3 << 20), larger(3 << 20);
    PALM_CHECK(!kHasRegions || second.data() == first.data() + 128, "one lies behind the other");
    PALM_CHECK(!kHasRegions || large.data() == second.data() + 1024, "so do large ones");
    std::fill_n(larger.data(), 3 << 20, 'x');
    {
      Arena lent(region, 10000);
      PALM_CHECK(!kHasRegions ||
                     (lent.data() > large.data() && lent.data() < large.data() + (4 << 20)),
                 "the end");
      std::fill_n(lent.data(), 10000, 'x');
      Arena apart(region, 10000);
      std::fill_n(apart.data(), 10000, 'y');
      PALM_CHECK(lent.data()[0] == 'x' && lent.data()[9999] == 'x', "lent to one at a time");
      const char* const place = lent.data();
      lent = Arena();
      PALM_CHECK(!kHasRegions || Arena(region, 20000).data() != place, "as much as it was");
      PALM_CHECK(!kHasRegions || Arena(region, 5000).data() == place, "lent again");
    }
    Region little(1000, 4 << 20);
    const Region::Use other(little);
    const Arena apart(100);
    PALM_CHECK(!kHasRegions || apart.data() < first.data() ||
                   apart.data() > first.data() + (4 << 20),
               "a small program has no region");
    for (size_t i = 0; i < 4100; ++i) {
      Arena next(1000);
      std::fill_n(next.data(), 1000, 'x');
    }
    kept = std::move(second);
  }
  PALM_CHECK(reinterpret_cast<uintptr_t>(kept.data()) % kAlignment == 0, "a cache line");
  std::fill_n(kept.data(), 1000, 'y');
}

void check_crc32() {
  PALM_CHECK(crc32("123456789", 9) == 0xCBF43926, "the check value");
  for (size_t size = 0; size < 700; ++size) {
    const std::unique_ptr<unsigned char[]> data(new unsigned char[size]);
    uint32_t expected = ~0u;
    for (size_t i = 0; i < size; ++i) {
      data[i] = static_cast<unsigned char>(i * i * 31 + size);
      expected ^= data[i];
      for (int bit = 0; bit < 8; ++bit) expected = expected >> 1 ^ (expected & 1 ? 0xEDB88320 : 0);
    }
    PALM_CHECK(crc32(data.get(), size) == ~expected, "as its definition");
  }
}

}  // namespace

// Every float16 there and back, and what is none.
void check_halves() {
  for (uint32_t bits = 0; bits <= UINT16_MAX; ++bits) {
    for (const size_t count : {1, 9}) {
      const std::vector<uint16_t> halves(count, static_cast<uint16_t>(bits));
      std::vector<float> wide(count);
      widen_halves(halves.data(), count, wide.data());
      std::vector<uint16_t> back(count);
      const bool is_finite = (bits & 0x7c00) != 0x7c00;
      const bool same = narrow_to_halves(wide.data(), count, back.data());
      PALM_CHECK(same ? back == halves : !is_finite, "%#x", bits);
      wide.back() = std::nextafterf(wide.back(), 1e9f);
      if (is_finite && (bits & 0x7fff))
        PALM_CHECK(!narrow_to_halves(wide.data(), count, back.data()), "behind %#x", bits);
    }
  }
  for (const float x : {65505.f, 65520.f, 1e30f, 1e-8f, 0.1f, -1e-30f}) {
    uint16_t half;
    PALM_CHECK(!narrow_to_halves(&x, 1, &half), "%g", static_cast<double>(x));
  }
}

int main() {
  for (int threads : {1, 2, 3, 8, 33}) check_pool(threads, threads < 9 ? 2000 : 200);
  check_two_pools();
  check_sleep();
  check_sharing();
  check_throwing();
  check_interrupts();
  check_slices();
  check_runner();
  PALM_CHECK(refuses([] { Pool(0); }) && refuses([] { Pool(100000); }), "a number of threads");
  check_bounds();
  check_strides();
  check_tensor();
  check_attrs();
  check_arenas();
  check_crc32();
  check_halves();
}
