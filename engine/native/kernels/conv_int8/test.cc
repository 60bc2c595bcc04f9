// Every way of convolving bytes, bit for bit what a loop gives.
#include <cmath>

#include "base/check.h"
#include "kernels/conv/conv_case.h"
#include "kernels/conv_int8/conv_int8.h"

namespace {

using namespace palm;

using Bytes = std::vector<uint8_t, AlignedAllocator<uint8_t>>;

struct Int8Case : ConvCase {
  int64_t x_zero, y_zero, low, high, z_zero, inner_zero, inner_low, inner_high;
  int64_t sum_zero, sum_low, sum_high;
  float z_scale, inner_scale, sum_scale;
  bool slope, is_float;
};

// One product or sum, rounded to float.
float rounded(float x) {
  volatile float stored = x;
  return stored;
}

struct Values {
  Bytes x, z;
  std::vector<int8_t> w;
  std::vector<int32_t> bias;
  Vector scale, slope;

  Values(const Int8Case& c, Random& random) {
    for (size_t i = c.images * c.height * c.width * c.in(); i > 0; --i) x.push_back(byte(random));
    for (size_t i = c.out() * c.depth(); i > 0; --i)
      w.push_back(static_cast<int8_t>(byte(random) - 128));
    for (size_t i = c.count() / c.out() * c.residual_channels; i > 0; --i)
      z.push_back(byte(random));
    const float spread = 1.f / (60.f * std::sqrt(static_cast<float>(c.depth())));
    for (size_t i = 0; i < c.out(); ++i) {
      bias.push_back(static_cast<int32_t>(random.next() * 20000.f));
      scale.push_back(spread * (1.2f + random.next()));
      slope.push_back(random.next());
    }
  }

  // The ends of the range more often than others: there sums of two products leave 16 bits.
  static uint8_t byte(Random& random) {
    const uint32_t bits = random.bits();
    if (bits % 4 == 0) return bits & 16 ? 255 : 0;
    return static_cast<uint8_t>(bits >> 8);
  }
};

int32_t sum_at(const Int8Case& c, const Values& v, size_t pixel, size_t m) {
  const size_t ox = pixel % c.out_width(), row = pixel / c.out_width();
  const size_t oy = row % c.out_height(), image = row / c.out_height();
  int32_t sum = c.bias ? v.bias[m] : 0;
  for (size_t ky = 0; ky < c.kernel_height; ++ky) {
    for (size_t kx = 0; kx < c.kernel_width; ++kx) {
      const size_t iy = oy * c.stride_y + ky * c.dilation_y - c.top;
      const size_t ix = ox * c.stride_x + kx * c.dilation_x - c.left;
      if (iy >= c.height || ix >= c.width) continue;
      for (size_t i = 0; i < c.group_in; ++i) {
        const size_t at =
            ((image * c.height + iy) * c.width + ix) * c.in() + m / c.group_out * c.group_in + i;
        const int32_t weight =
            v.w[((m * c.kernel_height + ky) * c.kernel_width + kx) * c.group_in + i];
        sum += (v.x[at] - static_cast<int32_t>(c.x_zero)) * weight;
      }
    }
  }
  return sum;
}

uint8_t expect(const Int8Case& c, const Values& v, size_t i) {
  const auto clip = [](float a, int64_t low, int64_t high, int64_t zero) {
    return std::fmin(std::fmax(a, static_cast<float>(low - zero)), static_cast<float>(high - zero));
  };
  const size_t m = i % c.out();
  float y = rounded(static_cast<float>(sum_at(c, v, i / c.out(), m)) * v.scale[m]);
  if (c.inner_scale != 0.f) {
    const float q = std::nearbyint(clip(y, c.inner_low, c.inner_high, c.inner_zero));
    y = rounded(q * c.inner_scale);
  }
  if (m < c.residual_channels) {
    const uint8_t z = v.z[i / c.out() * c.residual_channels + m];
    y = rounded(y + rounded(static_cast<float>(z - c.z_zero) * c.z_scale));
  }
  if (c.sum_scale != 0.f)
    y = rounded(std::nearbyint(clip(y, c.sum_low, c.sum_high, c.sum_zero)) * c.sum_scale);
  if (c.slope && y <= 0) y = rounded(y * v.slope[m]);
  return static_cast<uint8_t>(std::nearbyint(clip(y, c.low, c.high, c.y_zero)) +
                              static_cast<float>(c.y_zero));
}

float expect_float(const Int8Case& c, const Values& v, size_t i) {
  const size_t m = i % c.out();
  return rounded(static_cast<float>(sum_at(c, v, i / c.out(), m)) * v.scale[m]);
}

// A set of instructions that this machine has.
struct Set {
  const char* name;
  uint32_t isa;
};

template <class T>
void check_runs(const Set& set, const Int8Case& c, OneStep& step,
                const std::vector<T, AlignedAllocator<T>>& expected, Random& random) {
  constexpr T kUntouched = 77;
  const size_t count = expected.size();
  for (int threads : {1, 3}) {
    std::vector<T, AlignedAllocator<T>> y(count + 1, kUntouched);
    step.make(set.isa, threads).run({y.data()});
    for (size_t i = 0; i < count; ++i) {
      PALM_CHECK(y[i] == expected[i], "%s: %s, %d threads: y[%zu] is %g, expected %g", set.name,
                 c.text().c_str(), threads, i, static_cast<double>(y[i]),
                 static_cast<double>(expected[i]));
    }
    PALM_CHECK(y[count] == kUntouched, "%s: %s: wrote past the end", set.name, c.text().c_str());
    PALM_CHECK(step.in_wider_pixels(random).make(set.isa, threads).writes(expected),
               "%s: %s: channels of wider pixels are not the same", set.name, c.text().c_str());
  }
}

void check(const std::vector<Set>& sets, const Int8Case& c, Random& random) {
  const Values v(c, random);
  const size_t out = c.out(), count = c.count();
  const std::vector<size_t> y_shape{c.images, c.out_height(), c.out_width(), out};
  OneStep step("conv_int8");
  step.input(DType::kUint8, {c.images, c.height, c.width, c.in()}, v.x)
      .input(DType::kInt8, {out, c.kernel_height, c.kernel_width, c.group_in}, v.w, true)
      .input({out}, v.scale, true);
  c.bias ? step.input(DType::kInt32, {out}, v.bias, true) : step.no_input();
  std::vector<size_t> z_shape = y_shape;
  z_shape.back() = c.residual_channels;
  c.residual_channels ? step.input(DType::kUint8, z_shape, v.z) : step.no_input();
  if (c.slope) step.input({out}, v.slope, true);
  step.output(c.is_float ? DType::kFloat32 : DType::kUint8, y_shape);
  c.set_window(step);
  step.attr("x_zero", c.x_zero).attr("y_zero", c.y_zero).attr("low", c.low).attr("high", c.high);
  if (c.residual_channels)
    step.attr("z_scale", static_cast<double>(c.z_scale)).attr("z_zero", c.z_zero);
  if (c.inner_scale != 0.f) {
    step.attr("inner_scale", static_cast<double>(c.inner_scale))
        .attr("inner_zero", c.inner_zero)
        .attr("inner_low", c.inner_low)
        .attr("inner_high", c.inner_high);
  }
  if (c.sum_scale != 0.f) {
    step.attr("sum_scale", static_cast<double>(c.sum_scale))
        .attr("sum_zero", c.sum_zero)
        .attr("sum_low", c.sum_low)
        .attr("sum_high", c.sum_high);
  }
  if (c.is_float) {
    Vector expected(count);
    for (size_t i = 0; i < count; ++i) expected[i] = expect_float(c, v, i);
    for (const Set& set : sets) check_runs(set, c, step, expected, random);
  } else {
    Bytes expected(count);
    for (size_t i = 0; i < count; ++i) expected[i] = expect(c, v, i);
    for (const Set& set : sets) check_runs(set, c, step, expected, random);
  }
}

void check(const std::vector<Set>& sets) {
  Random random;
  const auto pick = [&](std::initializer_list<size_t> from) {
    return from.begin()[random.bits() % from.size()];
  };
  const auto any = [&] { return static_cast<int64_t>(random.between(0, 255)); };
  for (size_t i = 0; i < trials(500); ++i) {
    Int8Case c{};
    c.activation = "";
    c.images = random.between(1, 2);
    c.groups = pick({1, 1, 1, 2, 3});
    c.group_in = random.between(1, 20), c.group_out = random.between(1, 40);
    c.kernel_height = pick({1, 2, 3, 3, 5, 7}), c.kernel_width = pick({1, 2, 3, 3, 5, 7});
    c.stride_y = random.between(1, 3), c.stride_x = random.between(1, 3);
    c.dilation_y = pick({1, 1, 2}), c.dilation_x = pick({1, 1, 2});
    c.top = random.between(0, 3), c.left = random.between(0, 3);
    c.bottom = random.between(0, 3), c.right = random.between(0, 3);
    c.height = random.between(1, 20), c.width = random.between(1, 40);
    if (i % 3 == 0) {
      c.groups = random.between(2, i % 4 ? 150 : 17), c.group_in = 1;
      c.group_out = pick({1, 1, 1, 2, 3});
      c.kernel_width = c.kernel_height = pick({1, 2, 3, 3, 3, 5, 5, 7});
      c.stride_x = c.stride_y = pick({1, 1, 2, 2, 3});
      c.dilation_x = c.dilation_y = pick({1, 1, 1, 2});
    }
    if (i % 8 == 1) {
      c.kernel_height = c.kernel_width = c.stride_y = c.stride_x = 1;
      c.top = c.left = c.bottom = c.right = 0;
      c.group_in = random.between(1, 70), c.group_out = random.between(1, 100);
    }
    c.make_room();
    c.bias = random.between(0, 3) != 0;
    c.x_zero = pick({0, 128, 255, random.between(0, 255)});
    c.y_zero = any();
    c.high = 255;
    if (i % 5 == 0) c.low = any(), c.high = std::max(c.low, any());
    if (i % 3 == 1) {
      c.residual_channels = i % 9 == 4 ? random.between(1, c.out()) : c.out();
      c.z_scale = 1.f + random.next(), c.z_zero = any();
      if (i % 2) {
        c.inner_scale = 1.5f + random.next(), c.inner_zero = any(), c.inner_high = 255;
        if (i % 4 == 1) c.inner_low = any(), c.inner_high = std::max(c.inner_low, any());
      }
    }
    c.slope = i % 7 == 2 || i % 6 == 1;
    if (i % 6 == 1) {
      c.sum_scale = 0.9f + random.next() * 0.5f, c.sum_zero = any(), c.sum_high = 255;
      if (i % 4 == 1) c.sum_low = any(), c.sum_high = std::max(c.sum_low, any());
    }
    c.is_float = !c.slope && !c.residual_channels && i % 11 < 3;
    check(sets, c, random);
  }
}

}  // namespace

int main() {
  std::vector<Set> sets;
#define PALM_INT8_ISA(isa, need) \
  if (runs_here(need)) sets.push_back({#isa, need});
#define PALM_FILE_ISA(isa, need) PALM_INT8_ISA(isa, need)
#include "base/file_isas.inc"
#include "base/int8_isas.inc"
#undef PALM_FILE_ISA
#undef PALM_INT8_ISA
  check(sets);
}
