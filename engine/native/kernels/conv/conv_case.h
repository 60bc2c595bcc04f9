#pragma once
// Convolutions for tests, and what a loop makes of them.
#include <cmath>
#include <cstdio>

#include "base/one_step.h"

namespace palm {

struct ConvCase {
  size_t images, height, width, groups, group_in, group_out, kernel_height, kernel_width;
  size_t stride_y, stride_x, dilation_y, dilation_x, top, left, bottom, right;
  size_t residual_channels;  // 0: none
  bool bias;
  const char* activation;

  size_t in() const { return groups * group_in; }
  size_t out() const { return groups * group_out; }
  size_t out_height() const {
    return (height + top + bottom - (kernel_height - 1) * dilation_y - 1) / stride_y + 1;
  }
  size_t out_width() const {
    return (width + left + right - (kernel_width - 1) * dilation_x - 1) / stride_x + 1;
  }
  size_t depth() const { return kernel_height * kernel_width * group_in; }
  size_t count() const { return images * out_height() * out_width() * out(); }
  bool is(const char* name) const { return std::string(activation) == name; }

  // A larger image where it has no room for one window.
  void make_room() {
    const size_t reach_y = (kernel_height - 1) * dilation_y + 1;
    const size_t reach_x = (kernel_width - 1) * dilation_x + 1;
    if (height + top + bottom < reach_y) height = reach_y;
    if (width + left + right < reach_x) width = reach_x;
  }

  std::string text() const {
    char text[256];
    std::snprintf(text, sizeof text,
                  "x %zux%zux%zux%zu, w %zux%zux%zux%zu, stride %zu %zu, dilation %zu %zu, "
                  "pads %zu %zu %zu %zu, residual %zu, %s",
                  images, height, width, in(), out(), kernel_height, kernel_width, group_in,
                  stride_y, stride_x, dilation_y, dilation_x, top, left, bottom, right,
                  residual_channels, activation);
    return text;
  }

  void set_window(OneStep& step) const {
    const auto ints = [](std::initializer_list<size_t> v) { return Ints(v.begin(), v.end()); };
    step.attr("strides", ints({stride_y, stride_x}))
        .attr("dilations", ints({dilation_y, dilation_x}))
        .attr("pads", ints({top, left, bottom, right}))
        .attr("group", static_cast<int64_t>(groups));
  }

  void set_attrs(OneStep& step) const {
    set_window(step);
    step.attr("activation", std::string(activation));
    if (is("clip")) step.attr("activation_params", Floats{0, 6});
    if (is("leaky_relu")) step.attr("activation_params", Floats{0.125});
  }

  // All sums in double: rounding aside what every algorithm must give.
  std::vector<double> expect(const Vector& x, const Vector& w, const Vector& bias_of,
                             const Vector& slope, const Vector& z) const {
    const size_t width_of = out_width(), height_of = out_height();
    std::vector<double> y(count());
    for (size_t i = 0; i < y.size(); ++i) {
      const size_t m = i % out(), pixel = i / out();
      const size_t row = pixel / width_of;
      double v = sum_at(x, w, row / height_of, row % height_of, pixel % width_of, m);
      if (bias) v += static_cast<double>(bias_of[m]);
      if (m < residual_channels) v += static_cast<double>(z[pixel * residual_channels + m]);
      y[i] = std::isnan(v) ? v : activate(v, static_cast<double>(slope[m]));
    }
    return y;
  }

 private:
  double sum_at(const Vector& x, const Vector& w, size_t image, size_t oy, size_t ox,
                size_t m) const {
    double sum = 0;
    const size_t group = m / group_out;
    for (size_t ky = 0; ky < kernel_height; ++ky) {
      for (size_t kx = 0; kx < kernel_width; ++kx) {
        const size_t iy = oy * stride_y + ky * dilation_y - top;
        const size_t ix = ox * stride_x + kx * dilation_x - left;
        if (iy >= height || ix >= width) continue;
        const size_t at = ((image * height + iy) * width + ix) * in() + group * group_in;
        const size_t weight = ((m * kernel_height + ky) * kernel_width + kx) * group_in;
        for (size_t i = 0; i < group_in; ++i)
          sum += static_cast<double>(x[at + i]) * static_cast<double>(w[weight + i]);
      }
    }
    return sum;
  }

  double activate(double v, double slope) const {
    if (is("clip")) return std::fmin(6.0, std::fmax(0.0, v));
    if (is("prelu")) return v > 0 ? v : v * slope;
    if (is("leaky_relu")) return v > 0 ? v : v * 0.125;
    if (is("hard_swish")) return v * std::fmin(1.0, std::fmax(0.0, v / 6 + 0.5));
    if (is("hard_sigmoid")) return std::fmin(1.0, std::fmax(0.0, v * 0.2 + 0.5));
    if (is("sigmoid")) return 1 / (1 + std::exp(-v));
    if (is("tanh")) return std::tanh(v);
    return v;
  }
};

}  // namespace palm
