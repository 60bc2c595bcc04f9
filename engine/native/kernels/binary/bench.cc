#include "base/bench.h"

#include "kernels/binary/binary.h"

int main() {
  using namespace palm;
  constexpr size_t kRows = 512, kColumns = 16;
  constexpr struct {
    const char* name;
    size_t rows, n;
    ptrdiff_t b_row, b_step;
  } kCases[] = {{"same shape", 1, kRows * kColumns, 0, 1},
                {"a value", 1, kRows * kColumns, 0, 0},
                {"a vector of 16 channels", kRows, kColumns, 0, 1},
                {"a value for each 16 channels", kRows, kColumns, 1, 0}};
  Random random;
  const Vector a = random.floats(kRows * kColumns), b = random.floats(kRows * kColumns);
  Vector y(kRows * kColumns);
  bench_header("GB/s, read and written, add of");
  for (const auto& c : kCases) {
    bench(c.name, 8.0 * kRows * kColumns, [&](uint32_t isa) {
      const Binary binary{BinaryOp::kAdd,
                          c.rows,
                          c.n,
                          a.data(),
                          static_cast<ptrdiff_t>(c.n),
                          1,
                          b.data(),
                          c.b_row,
                          c.b_step,
                          y.data(),
                          0.f,
                          6.f};
      const BinaryFn run = find_binary(isa);
      return [=] { run(binary); };
    });
  }
}
