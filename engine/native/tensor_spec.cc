#include "tensor_spec.h"

namespace palm {
namespace {

// Whether they are some channels each of the same wider pixels, and none is of both.
bool are_other_channels(const TensorSpec& x, const TensorSpec& y) {
  const size_t pixel = x.tensor.pixel(), of_x = x.tensor.shape.empty() ? 1 : x.tensor.shape.back(),
               of_y = y.tensor.shape.empty() ? 1 : y.tensor.shape.back();
  if (x.slot != y.slot || size_of(x.tensor.dtype) != size_of(y.tensor.dtype) || !pixel ||
      pixel != y.tensor.pixel() || !x.tensor.has_pixels() || !y.tensor.has_pixels())
    return false;
  const size_t first_x = x.offset % pixel, first_y = y.offset % pixel;
  return first_x + of_x <= pixel && first_y + of_y <= pixel &&
         (first_x + of_x <= first_y || first_y + of_y <= first_x);
}

}  // namespace

bool TensorSpec::find_ends() {
  const Tensor& t = tensor;
  const size_t size = size_of(t.dtype);
  size_t first = offset, last = offset;
  if (t.is_dense() && t.count) {
    if (__builtin_add_overflow(last, t.count - 1, &last)) return false;
  }
  for (size_t i = 0; i < t.strides.size(); ++i) {
    const int64_t stride = t.strides[i];
    const auto length = static_cast<uint64_t>(stride), step = stride < 0 ? -length : length;
    size_t reach;
    if (__builtin_mul_overflow(t.shape[i] - 1, step, &reach) ||
        (stride < 0 ? __builtin_sub_overflow(first, reach, &first)
                    : __builtin_add_overflow(last, reach, &last)))
      return false;
  }
  return !__builtin_mul_overflow(first, size, &begin) &&
         !__builtin_mul_overflow(last, size, &end) &&
         !__builtin_add_overflow(end, t.count ? size : 0, &end);
}

bool apart(const TensorSpec& x, const TensorSpec& y) {
  if (x.place != y.place) return true;
  const bool is_arena = x.place == Place::kArena;
  if (!is_arena && x.slot != y.slot) return true;
  const size_t from_x = is_arena ? x.slot : 0, from_y = is_arena ? y.slot : 0;
  return from_x + x.end <= from_y + y.begin || from_y + y.end <= from_x + x.begin ||
         are_other_channels(x, y);
}

bool same(const TensorSpec& x, const TensorSpec& y) {
  return x.place == y.place && x.slot == y.slot && x.begin == y.begin &&
         x.tensor.bytes() == y.tensor.bytes() && x.tensor.strides == y.tensor.strides &&
         (x.tensor.is_dense() || x.tensor.shape == y.tensor.shape);
}

}  // namespace palm
