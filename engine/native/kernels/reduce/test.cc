#include <cmath>

#include "base/check.h"
#include "base/one_step.h"
#include "kernels/reduce/reduce.h"

namespace {

using namespace palm;

constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kMean, ReduceOp::kMax,
                             ReduceOp::kMin, ReduceOp::kProd, ReduceOp::kL2};

double start(ReduceOp op) {
  if (op == ReduceOp::kMax) return -INFINITY;
  if (op == ReduceOp::kMin) return INFINITY;
  return op == ReduceOp::kProd ? 1 : 0;
}

double step(ReduceOp op, double so_far, double v) {
  if (op == ReduceOp::kMax) return v > so_far ? v : so_far;
  if (op == ReduceOp::kMin) return v < so_far ? v : so_far;
  if (op == ReduceOp::kProd) return so_far * v;
  return so_far + (op == ReduceOp::kL2 ? v * v : v);
}

double end(ReduceOp op, double so_far, size_t rows) {
  if (op == ReduceOp::kMean) return so_far / static_cast<double>(rows);
  return op == ReduceOp::kL2 ? std::sqrt(so_far) : so_far;
}

void check_sizes(const char* name, ReduceFn run) {
  Random random;
  for (ReduceOp op : kOps) {
    for (size_t n = 0; n <= 70; n += trial_step()) {
      for (size_t rows : {1, 2, 5, 16, 49}) {
        const size_t stride = n + n % 3;
        const Vector x = random.floats(rows * stride + 1);
        Vector y(n + 1, 77.f);
        run(op, rows, n, x.data(), stride, y.data());
        for (size_t j = 0; j < n; ++j) {
          double expected = start(op);
          for (size_t i = 0; i < rows; ++i) expected = step(op, expected, x[i * stride + j]);
          expected = end(op, expected, rows);
          PALM_CHECK(is_close(y[j], expected, 1e-5), "%s: op %d, n=%zu, %zu rows: %g for %g", name,
                     static_cast<int>(op), n, rows, y[j], expected);
        }
        PALM_CHECK(y[n] == 77.f, "%s: wrote past n=%zu", name, n);
      }
    }
  }
  const float x[3] = {1.f, NAN, 2.f};
  float y = 0;
  run(ReduceOp::kMax, 3, 1, x, 1, &y);
  PALM_CHECK(std::isnan(y), "%s: the maximum lost a NaN", name);
}

// Every choice of the axes of a small array.
void check_axes(const char* name, uint32_t isa) {
  Random random;
  const size_t sizes[4] = {2, 3, 4, 5};
  const Vector x = random.floats(120);
  for (unsigned axes = 0; axes < 16; ++axes) {
    Ints out_shape, out_strides, red_shape, red_strides;
    size_t count = 1;
    for (size_t d = 0, stride = 120; d < 4; ++d) {
      stride /= sizes[d];
      const bool reduced = axes >> d & 1;
      (reduced ? red_shape : out_shape).push_back(static_cast<int64_t>(sizes[d]));
      (reduced ? red_strides : out_strides).push_back(static_cast<int64_t>(stride));
      if (!reduced) count *= sizes[d];
    }
    Vector y(count), expected(count, 0.f);
    for (size_t i = 0; i < 120; ++i) {
      const size_t index[4] = {i / 60, i / 20 % 3, i / 5 % 4, i % 5};
      size_t at = 0;
      for (size_t d = 0; d < 4; ++d)
        if (!(axes >> d & 1)) at = at * sizes[d] + index[d];
      expected[at] += x[i];
    }
    OneStep one("reduce");
    one.input({2, 3, 4, 5}, x).output({count}).attr("op", std::string("sum"));
    one.attr("out_shape", out_shape).attr("out_strides", out_strides);
    one.attr("red_shape", red_shape).attr("red_strides", red_strides);
    one.make(isa, 1 + static_cast<int>(axes % 2)).run(y.data(), count);
    for (size_t i = 0; i < count; ++i)
      PALM_CHECK(is_close(y[i], expected[i], 1e-5), "%s: axes %u: %g for %g", name, axes, y[i],
                 expected[i]);
  }
}

// Means of whole pictures, which go by parts or by columns.
void check_pictures(const char* name, uint32_t isa) {
  Random random;
  const auto ints = [](std::initializer_list<size_t> v) { return Ints(v.begin(), v.end()); };
  for (size_t rows : {49, 127, 128, 196, 700, 5000}) {
    for (size_t n : {1, 3, 16, 24, 200}) {
      for (size_t images : {1, 3, 9}) {
        for (ReduceOp op : {ReduceOp::kMean, ReduceOp::kMax, ReduceOp::kL2}) {
          const Vector x = random.floats(images * rows * n);
          const size_t count = images * n;
          Vector y(count + 1, 77.f), y3(count + 1, 77.f);
          OneStep one("reduce");
          const char* const names[] = {"sum", "mean", "max", "min", "prod", "l2"};
          one.input({images, rows, n}, x).output({images, n});
          one.attr("op", std::string(names[static_cast<int>(op)]));
          one.attr("out_shape", ints({images, n})).attr("out_strides", ints({rows * n, 1}));
          one.attr("red_shape", ints({rows})).attr("red_strides", ints({n}));
          one.make(isa, 1).run(y.data(), count);
          one.make(isa, 3).run(y3.data(), count);
          for (size_t i = 0; i < count; ++i) {
            double expected = start(op);
            for (size_t r = 0; r < rows; ++r)
              expected = step(op, expected, x[(i / n * rows + r) * n + i % n]);
            expected = end(op, expected, rows);
            PALM_CHECK(is_close(y[i], expected, 1e-5), "%s: %zu x %zu: %g for %g", name, rows, n,
                       y[i], expected);
          }
          PALM_CHECK(y[count] == 77.f, "%s: wrote past the end", name);
          PALM_CHECK(y == y3, "%s: 3 threads give another result", name);
        }
      }
    }
  }
}

}  // namespace

int main() {
#define PALM_KERNEL(need, name)                                                     \
  if (runs_here(need))                                                              \
    check_sizes(#name, name), check_axes(#name, need), check_pictures(#name, need); \
  else std::printf("skip %s\n", #name);
#include "kernels/reduce/kernels.inc"
#undef PALM_KERNEL
}
