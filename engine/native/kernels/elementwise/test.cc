#include <cmath>
#include <functional>
#include <limits>

#include "base/check.h"
#include "base/one_step.h"

namespace {

using namespace palm;

template <class T>
struct Case {
  const char* op;
  std::function<T(T, T)> exact;
};

template <class T>
std::vector<T> values(Random& random, size_t n) {
  std::vector<T> v;
  for (size_t i = 0; i < n; ++i) {
    const int whole = static_cast<int>(random.between(0, 12)) - (std::is_signed_v<T> ? 6 : 0);
    v.push_back(static_cast<T>(whole));
  }
  return v;
}

// Sizes 0 .. 70; every operand dense, one value for all, or walked backwards.
template <class T, class R>
void check(DType dtype, DType result, const std::vector<Case<T>>& cases) {
  Random random;
  for (const Case<T>& c : cases) {
    for (size_t n = 0; n <= 70; n += trial_step()) {
      const std::vector<T> a = values<T>(random, 3 * n + 1), b = values<T>(random, 3 * n + 1);
      const bool one = n % 3 == 0, apart = n % 2 == 0;
      const int64_t size = static_cast<int64_t>(n);
      std::vector<R> y(3 * n + 1, R{77});
      OneStep step("elementwise");
      step.input(dtype, {a.size()}, a).input(dtype, {b.size()}, b).output(result, {3, n});
      step.attr("op", std::string(c.op)).attr("shape", Ints{3, size});
      step.attr("a_strides", apart ? Ints{1, 3} : Ints{size, 1});
      step.attr("b_strides", one ? Ints{0, 0} : Ints{size, 1});
      step.make(kScalar, 1 + static_cast<int>(n % 2)).run({y.data()});
      for (size_t i = 0; i < 3 * n; ++i) {
        const T u = a[apart ? i / n + i % n * 3 : i], v = b[one ? 0 : i];
        const R expected = static_cast<R>(c.exact(u, v));
        PALM_CHECK(y[i] == expected, "%s of %s: %g, %g is %g, expected %g", c.op, name_of(dtype),
                   static_cast<double>(u), static_cast<double>(v), static_cast<double>(y[i]),
                   static_cast<double>(expected));
      }
      PALM_CHECK(y[3 * n] == R{77}, "%s wrote past n=%zu", c.op, n);
    }
  }
}

template <class T>
void check_integers(DType dtype) {
  check<T, T>(dtype, dtype,
              {{"add", [](T a, T b) { return static_cast<T>(a + b); }},
               {"sub", [](T a, T b) { return static_cast<T>(a - b); }},
               {"mul", [](T a, T b) { return static_cast<T>(a * b); }},
               {"div", [](T a, T b) { return static_cast<T>(b ? a / b : 0); }},
               {"max", [](T a, T b) { return a > b ? a : b; }},
               {"min", [](T a, T b) { return a < b ? a : b; }},
               {"fmod", [](T a, T b) { return static_cast<T>(b ? a % b : 0); }},
               {"mod", [](T a, T b) {
                  if (b == 0) return T{0};
                  return static_cast<T>(((a % b) + b) % b);
                }}});
}

template <class T>
void check_comparisons(DType dtype) {
  check<T, uint8_t>(dtype, DType::kBool,
                    {{"equal", [](T a, T b) { return static_cast<T>(a == b); }},
                     {"less", [](T a, T b) { return static_cast<T>(a < b); }},
                     {"less_or_equal", [](T a, T b) { return static_cast<T>(a <= b); }},
                     {"greater", [](T a, T b) { return static_cast<T>(a > b); }},
                     {"greater_or_equal", [](T a, T b) { return static_cast<T>(a >= b); }}});
}

template <class T, class R>
std::vector<R> of_one(const char* op, DType dtype, DType result, const std::vector<T>& x) {
  std::vector<R> y(x.size());
  OneStep step("elementwise");
  step.input(dtype, {x.size()}, x).output(result, {x.size()}).attr("op", std::string(op));
  step.attr("shape", Ints{static_cast<int64_t>(x.size())}).attr("a_strides", Ints{1});
  step.make(kScalar, 1).run({y.data()});
  return y;
}

void check_unary() {
  const std::vector<int32_t> x{-3, 0, 5, INT32_MIN};
  const DType i = DType::kInt32, f = DType::kFloat32;
  PALM_CHECK(
      (of_one<int32_t, int32_t>("neg", i, i, x) == std::vector<int32_t>{3, 0, -5, INT32_MIN}),
      "neg");
  PALM_CHECK((of_one<int32_t, int32_t>("abs", i, i, x) == std::vector<int32_t>{3, 0, 5, INT32_MIN}),
             "abs");
  PALM_CHECK((of_one<int32_t, int32_t>("sign", i, i, x) == std::vector<int32_t>{-1, 0, 1, -1}),
             "sign");
  const std::vector<uint8_t> bools{0, 1, 2};
  PALM_CHECK((of_one<uint8_t, uint8_t>("not", DType::kBool, DType::kBool, bools) ==
              std::vector<uint8_t>{1, 0, 0}),
             "not");
  PALM_CHECK((of_one<float, uint8_t>("is_nan", f, DType::kBool, {1.f, NAN, INFINITY}) ==
              std::vector<uint8_t>{0, 1, 0}),
             "is_nan");
}

// What has no answer in C++ has one here.
void check_overflow() {
  const std::vector<int64_t> a{INT64_MIN, INT64_MAX, INT64_MIN, 5}, b{-1, 1, -1, 0};
  const auto run = [&](const char* op) {
    std::vector<int64_t> y(4);
    OneStep step("elementwise");
    step.input(DType::kInt64, {4}, a).input(DType::kInt64, {4}, b).output(DType::kInt64, {4});
    step.attr("op", std::string(op)).attr("shape", Ints{4});
    step.attr("a_strides", Ints{1}).attr("b_strides", Ints{1}).make(kScalar, 1).run({y.data()});
    return y;
  };
  PALM_CHECK(run("div")[0] == INT64_MIN && run("div")[3] == 0, "div");
  PALM_CHECK(run("add")[1] == INT64_MIN && run("sub")[1] == INT64_MAX - 1, "add, sub");
  PALM_CHECK(run("mod")[0] == 0 && run("mod")[3] == 0, "mod");
}

void check_where() {
  Random random;
  for (size_t n = 0; n <= 70; ++n) {
    for (int steps = 0; steps < 8; ++steps) {
      const bool c = steps & 1, t = steps & 2, f = steps & 4;
      std::vector<uint8_t> condition;
      for (size_t i = 0; i <= n; ++i) condition.push_back(random.bits() % 2 ? 7 : 0);
      const Vector a = random.floats(n + 1), b = random.floats(n + 1);
      Vector y(n + 1, 77.f);
      OneStep step("elementwise");
      step.input(DType::kBool, {n + 1}, condition).input({n + 1}, a).input({n + 1}, b).output({n});
      step.attr("op", std::string("where")).attr("shape", Ints{static_cast<int64_t>(n)});
      step.attr("a_strides", Ints{c}).attr("b_strides", Ints{t}).attr("c_strides", Ints{f});
      step.make(kScalar, 2).run(y.data(), n);
      for (size_t i = 0; i < n; ++i) {
        const float expected = condition[c ? i : 0] ? a[t ? i : 0] : b[f ? i : 0];
        PALM_CHECK(y[i] == expected, "where, n=%zu, strides %d: %g", n, steps, y[i]);
      }
      PALM_CHECK(y[n] == 77.f, "where wrote past n=%zu", n);
    }
  }
}

}  // namespace

int main() {
  check_integers<int8_t>(DType::kInt8);
  check_integers<uint8_t>(DType::kUint8);
  check_integers<int32_t>(DType::kInt32);
  check_integers<int64_t>(DType::kInt64);
  check_comparisons<float>(DType::kFloat32);
  check_comparisons<double>(DType::kFloat64);
  check_comparisons<int8_t>(DType::kInt8);
  check_comparisons<uint8_t>(DType::kUint8);
  check_comparisons<int32_t>(DType::kInt32);
  check_comparisons<int64_t>(DType::kInt64);
  check<uint8_t, uint8_t>(DType::kBool, DType::kBool,
                          {{"and", [](uint8_t a, uint8_t b) { return a && b; }},
                           {"or", [](uint8_t a, uint8_t b) { return a || b; }},
                           {"xor", [](uint8_t a, uint8_t b) { return !a != !b; }},
                           {"equal", [](uint8_t a, uint8_t b) { return !a == !b; }}});
  check_unary();
  check_overflow();
  check_where();
}
