#include "network.h"

#include "calls.h"

namespace palm_kits {
namespace {

constexpr size_t kMostSizes = 4096;
constexpr int kMostSide = 16384;

}  // namespace

Output::Output(const char* name_, std::initializer_list<int64_t> dims_) : name(name_), dims(dims_) {
  size_t size = 1;
  for (int64_t dim : dims) size *= static_cast<size_t>(dim);
  data.resize(size);
}

Network::Network(const palm_kits_network* network, const char* what) : what_(what) {
  given(network, what);
  run_ = network->run, user_ = network->user;
  if (!run_) refuse("%s: expected a function that runs it, got NULL", what);
  if (network->size_count > kMostSizes)
    refuse("%s: expected %zu sizes or fewer, got %zu", what, kMostSizes, network->size_count);
  given(network->sizes, network->size_count, "sizes");
  for (size_t i = 0; i < network->size_count; ++i) {
    const palm_kits_size& size = network->sizes[i];
    if (size.width < 1 || size.height < 1 || size.width > kMostSide || size.height > kMostSide)
      refuse("%s: expected sizes of 1 to %d pixels, got %dx%d", what, kMostSide, size.width,
             size.height);
    sizes_.push_back(size);
  }
}

int Network::side() const {
  if (sizes_.empty() || sizes_[0].width != sizes_[0].height)
    refuse("%s: expected the size of its input, a square", what_);
  return sizes_[0].width;
}

void Network::run(View image, std::vector<Output>& outputs, const float* up) const {
  std::vector<float> pixels(3 * static_cast<size_t>(image.width) *
                            static_cast<size_t>(image.height));
  const palm_kits_input input =
      PALM_KITS_INPUT(pixels.data(), sizeof(float) * pixels.size(), image.width, image.height);
  put(image, input);
  const int64_t dims[] = {1, image.height, image.width, 3}, up_dims[] = {1, 2};
  float upward[2] = {};
  if (up) upward[0] = up[0], upward[1] = up[1];
  const palm_kits_tensor inputs[] = {{"image", dims, 4, pixels.data()}, {"up", up_dims, 2, upward}};
  std::vector<palm_kits_tensor> made;
  for (Output& each : outputs)
    made.push_back({each.name, each.dims.data(), each.dims.size(), each.data.data()});
  const int32_t code = run_(user_, inputs, up ? 2 : 1, made.data(), made.size());
  if (code) bad(PALM_KITS_ERROR_NETWORK, "%s: its function returned %d", what_, code);
}

}  // namespace palm_kits
