#include "kernels/window.h"

#include <algorithm>

namespace palm {
namespace {

size_t count(size_t size, size_t kernel, size_t stride, size_t dilation) {
  const size_t reach = checked_product(kernel - 1, dilation) + 1;
  return size < reach ? 0 : (size - reach) / stride + 1;
}

}  // namespace

size_t size_attr(const Ints& values, size_t i, const char* name, int64_t least) {
  constexpr int64_t kMost = 1 << 20;
  if (values[i] < least || values[i] > kMost) {
    fail(Fault::kModel, "attribute %s: expected %lld to %lld, got %lld", name,
         static_cast<long long>(least), static_cast<long long>(kMost),
         static_cast<long long>(values[i]));
  }
  return static_cast<size_t>(values[i]);
}

const Tensor& image(const Tensor& tensor) {
  if (tensor.rank() != 4) fail(Fault::kModel, "expected 4 dims, got %s", tensor.text().c_str());
  return tensor;
}

Window::Window(const Node& node, size_t kernel_height_, size_t kernel_width_)
    : kernel_height(kernel_height_), kernel_width(kernel_width_) {
  if (!kernel_height || !kernel_width) fail(Fault::kModel, "the kernel is empty");
  const Ints strides = node.attrs.integers("strides", Ints{1, 1});
  const Ints dilations = node.attrs.integers("dilations", Ints{1, 1});
  const Ints pads = node.attrs.integers("pads", Ints{0, 0, 0, 0});
  stride_y = size_attr(strides, 0, "strides", 1);
  stride_x = size_attr(strides, 1, "strides", 1);
  dilation_y = size_attr(dilations, 0, "dilations", 1);
  dilation_x = size_attr(dilations, 1, "dilations", 1);
  top = size_attr(pads, 0, "pads", 0);
  left = size_attr(pads, 1, "pads", 0);
  bottom = size_attr(pads, 2, "pads", 0);
  right = size_attr(pads, 3, "pads", 0);
}

Taps::Taps(size_t at, size_t taps, size_t dilation, size_t padding, size_t size) {
  // How many taps lie before.
  const auto before = [=](size_t distance) {
    return std::min(taps, dilation == 1 ? distance : (distance + dilation - 1) / dilation);
  };
  begin = at < padding ? before(padding - at) : 0;
  end = std::max(begin, at < size + padding ? before(size + padding - at) : 0);
  first = at + begin * dilation - padding;
}

size_t Window::most_taps(size_t height, size_t width) const {
  return checked_product(std::min(kernel_height, height), std::min(kernel_width, width));
}

size_t Window::padded_taps(size_t oy, size_t ox, size_t height, size_t width) const {
  return Taps(oy * stride_y, kernel_height, dilation_y, 0, height + top + bottom).count() *
         Taps(ox * stride_x, kernel_width, dilation_x, 0, width + left + right).count();
}

size_t Window::rows(size_t height) const {
  return count(height + top + bottom, kernel_height, stride_y, dilation_y);
}

size_t Window::columns(size_t width) const {
  return count(width + left + right, kernel_width, stride_x, dilation_x);
}

void Window::inside(size_t width, size_t out_width, size_t& begin, size_t& end) const {
  const size_t reach = (kernel_width - 1) * dilation_x;
  begin = (left + stride_x - 1) / stride_x;
  end = width + left > reach ? (width + left - reach - 1) / stride_x + 1 : 0;
  end = std::max(begin, std::min(end, out_width));
}

}  // namespace palm
