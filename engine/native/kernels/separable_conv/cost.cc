#include <algorithm>

#include "kernels/conv/conv.h"
#include "kernels/separable_conv/separable_conv.h"

namespace palm {

std::vector<Candidate> separable_candidates(const Node& node) {
  constexpr size_t kLeastRows = 6, kBlockRows = 4;
  constexpr size_t kMostBlockBytes = 256 << 10, kMostWeightBytes = 400 << 10;
  const Tensor &x = image(node.in(separable::kX)), &y = image(node.out());
  const Tensor& w = node.in(separable::kWeights);
  const size_t rows = y.shape[0] * y.shape[1], channels = x.shape[3];
  const Tensor between(DType::kFloat32, {y.shape[0], y.shape[1], y.shape[2], channels});
  const size_t row_bytes = checked_product(y.shape[2], channels) * sizeof(float);
  if (rows < kLeastRows || row_bytes > kMostBlockBytes / kBlockRows || w.bytes() > kMostWeightBytes)
    return {};
  // As two steps, without what lies between them.
  Attrs of_first, of_second;
  for (const char* name : {"strides", "dilations", "pads"})
    of_first.set(name, node.attrs.integers(name));
  of_first.set("group", static_cast<int64_t>(channels));
  of_second.set("outputs_last", node.attrs.integer("outputs_last", 0));
  const Node first{{&x, node.input(separable::kDepthwiseWeights)}, {&between}, of_first, node.isa};
  const Node second{{&between, &w}, {&y}, of_second, node.isa};
  const auto seconds_by = [](const Node& node, const char* algorithm) {
    for (const Candidate& each : conv_candidates(node))
      if (each.algorithm == algorithm) return each.seconds;
    fail(Fault::kUnsupported, "not by %s", algorithm);
  };
  const double seconds = seconds_by(first, "depthwise") + seconds_by(second, "gemm");
  return {{"", std::max(seconds - touching_seconds(between.bytes()), 0.0), {}}};
}

}  // namespace palm
