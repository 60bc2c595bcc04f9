// Convolution: depthwise by its own kernel, 3x3 by Winograd, wide images as a GEMM for each row,
// the rest as a GEMM of the image itself or of patches gathered from it.
#include "kernels/conv/conv.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <numeric>

#include "base/bf16.h"
#include "kernels/conv/cost.h"
#include "kernels/winograd/winograd.h"

namespace palm {
namespace {

bool has_outputs_last(const Node& node) { return node.attrs.integer("outputs_last", 0) != 0; }

// All but those of weights that are mostly zeros count: a few are looked at first.
size_t count_nonzeros(const float* w, size_t count) {
  constexpr size_t kSamples = 128;
  const size_t step = std::max<size_t>(1, count / kSamples);
  size_t samples = 0, zeros = 0;
  for (size_t i = 0; i < count; i += step, ++samples) zeros += w[i] == 0;
  if (zeros * 2 < samples) return count;
  return count - static_cast<size_t>(std::count(w, w + count, 0.f));
}

// [m][ky][kx][c], whichever way the weights lie.
std::array<size_t, 4> kernel_shape(const Node& node) {
  const std::vector<size_t>& w = image(node.any_in(kWeights)).shape;
  if (has_outputs_last(node)) return {w[3], w[0], w[1], w[2]};
  return {w[0], w[1], w[2], w[3]};
}

}  // namespace

ConvShape::ConvShape(const Node& node)
    : Window(node, kernel_shape(node)[1], kernel_shape(node)[2]),
      outputs_last(has_outputs_last(node)) {
  const auto kernel = kernel_shape(node);
  const Tensor &x = image(node.any_in(kX)), &w = node.any_in(kWeights), &y = image(node.any_out());
  images = x.shape[0], height = x.shape[1], width = x.shape[2], channels = x.shape[3];
  out_height = y.shape[1], out_width = y.shape[2], out_channels = y.shape[3];
  x_pixel = x.pixel(), y_pixel = y.pixel();
  // Those of bytes have other inputs there.
  const bool is_bytes = x.dtype == DType::kUint8;
  const Tensor* const second = is_bytes ? nullptr : node.input(kSecond);
  const Tensor* const gate = is_bytes ? nullptr : node.input(kGate);
  images_read = second ? 2 : 1, is_gated = gate != nullptr;
  groups = size_attr({node.attrs.integer("group", 1)}, 0, "group", 1);
  constexpr size_t kVector = 8;
  const bool can_read_rows = groups == 1 && out_channels % kVector == 0 && !Conv::is_bf16(node);
  const bool fits = y.shape[0] == images && channels && out_channels && channels % groups == 0 &&
                    out_channels % groups == 0 && kernel[0] == out_channels &&
                    kernel[3] == channels / groups * images_read && x.has_pixels() && y.has_pixels() &&
                    (!outputs_last || can_read_rows) && out_height == rows(height) &&
                    out_width == columns(width);
  if (!fits) {
    fail(Fault::kModel, "%s by %s into %s does not fit its attributes", x.text().c_str(),
         w.text().c_str(), y.text().c_str());
  }
  const bool is_bf16 = Conv::is_bf16(node), is_product = groups == 1 && is_matrix();
  const bool suits_two = is_product && (!is_bf16 || (x.dtype == kNarrow && channels % 2 == 0));
  if (second && !(suits_two && second->shape == x.shape && second->dtype == x.dtype &&
                  second->has_pixels() && second->pixel() == x_pixel && !gate)) {
    fail(Fault::kModel, "%s and %s are not convolved at once", x.text().c_str(),
         second->text().c_str());
  }
  if (gate && !(is_product && !is_bf16 && gate->count == channels && gate->dtype == DType::kFloat32 &&
                images == 1)) {
    fail(Fault::kModel, "a gate of %s for %s", gate->text().c_str(), x.text().c_str());
  }
  group_channels = channels / groups;
  group_out = out_channels / groups;
  pixels = images * out_height * out_width;
  nonzeros = w.count;
  if (w.constant && w.dtype == DType::kFloat32 && is_matrix() && groups == 1 && !outputs_last)
    nonzeros = count_nonzeros(static_cast<const float*>(w.constant), w.count);
}

bool Conv::is_bf16(const Node& node) {
  return node.attrs.text("precision", "high") == name_of(kNarrow);
}

Conv::Conv(const Node& node, const ConvShape& shape)
    : shape_(shape),
      activation_(node, kSlope, shape.out_channels),
      residual_channels_(residual_channels(node, kResidual, shape.out_channels)) {
  for (const Tensor* t : {node.input(kX), node.input(kResidual), node.outputs[0]}) {
    if (t && t->dtype != DType::kFloat32 && !(is_bf16(node) && t->dtype == kNarrow))
      fail(Fault::kUnsupported, "no convolution of %s", t->text().c_str());
  }
  if (residual_channels_) residual_pixel_ = node.input(kResidual)->pixel();
  const float* bias = node.constant(kBias, shape.out_channels);
  if (bias) bias_.assign(bias, bias + shape.out_channels);
}

Epilogue Conv::epilogue(const Buffers& b) const {
  Epilogue e = activation_.epilogue(bias_.empty() ? nullptr : bias_.data());
  if (residual_channels_) {
    e.residual = b.in(kResidual);
    e.residual_stride = residual_pixel_;
    e.residual_channels = residual_channels_;
  }
  return e;
}

const float* Conv::weights(const Node& node, size_t channels, size_t depth,
                           std::vector<float>* room) const {
  const ConvShape& s = shape_;
  const float* from = node.constant(kWeights, node.in(kWeights).count);
  if (depth == s.taps() * s.group_channels * s.images_read) return from;
  room->assign(checked_product(s.out_channels, depth), 0.f);
  for (size_t m = 0; m < s.out_channels; ++m)
    for (size_t t = 0; t < s.taps(); ++t, from += s.group_channels)
      std::copy_n(from, s.group_channels, room->data() + m * depth + t * channels);
  return room->data();
}

namespace {

// Whether an algorithm of Bf16 multiplies tiles of AMX. Either: its kernel knows what is best.
enum class Tiles { kNone, kAll, kEither };

struct Algorithm {
  const char* name;
  bool (*suits)(const ConvShape& shape, uint32_t isa);
  bool exact;  // to what precision="high" promises
  CostTerms (*terms)(const ConvShape& shape, const ConvCosts& costs);
  CostTerms ConvPrices::* prices;
  // Null: there is none.
  StepPtr (*make)(const Node& node, const ConvShape& shape);
  StepPtr (*make_bf16)(const Node& node, const ConvShape& shape);
  Tiles tiles = Tiles::kNone;
};

bool always(const ConvShape&, uint32_t) { return true; }

template <bool (*kSuits)(const ConvShape& shape)>
bool if_it(const ConvShape& shape, uint32_t) {
  return kSuits(shape);
}

template <size_t kTile>
bool suits_tile(const ConvShape& shape, uint32_t isa) {
  constexpr size_t kTaps = 3;  // a set has kernels for these or for none
  return suits_winograd(shape, kTile) && find_winograd(isa, kTile, kTaps).gather;
}

template <size_t kTile>
CostTerms tile_terms(const ConvShape& shape, const ConvCosts& costs) {
  return winograd_terms(shape, costs, kTile);
}

template <size_t kTile>
StepPtr make_tiles(const Node& node, const ConvShape& shape) {
  return make_winograd_conv(node, shape, kTile);
}

// Where two cost the same the first one is taken. Winograd: Lavin and Gray, Fast Algorithms for
// Convolutional Neural Networks, arXiv 1509.09308.
constexpr Algorithm kAlgorithms[] = {
    {"depthwise", if_it<suits_depthwise>, true, depthwise_terms, &ConvPrices::depthwise,
     make_depthwise_conv, make_depthwise_conv_bf16, Tiles::kEither},
    {"gemm", always, true, gemm_terms, &ConvPrices::gemm, make_gemm_conv, make_gemm_conv_bf16},
    {"sparse", if_it<suits_sparse>, true, sparse_terms, &ConvPrices::sparse, make_sparse_conv, nullptr},
    {"rows", if_it<suits_rows>, true, row_terms, &ConvPrices::rows, make_row_conv, make_row_conv_bf16},
    {"winograd_2", suits_tile<2>, true, tile_terms<2>, &ConvPrices::winograd_2, make_tiles<2>,
     nullptr},
    {"winograd_4", suits_tile<4>, true, tile_terms<4>, &ConvPrices::winograd_4, make_tiles<4>,
     make_winograd_conv_bf16},
    {"winograd_6", suits_tile<6>, false, tile_terms<6>, &ConvPrices::winograd_6, make_tiles<6>,
     nullptr},
    {"amx_gemm", always, true, amx_gemm_terms, &ConvPrices::amx_gemm, nullptr, make_gemm_conv_bf16,
     Tiles::kAll},
    {"amx_rows", if_it<suits_rows>, true, amx_row_terms, &ConvPrices::amx_rows, nullptr,
     make_row_conv_bf16, Tiles::kAll},
};

bool has_tiles(uint32_t isa) { return (isa & kAmxBf16) == kAmxBf16; }

// Each part of the picture that a thread takes multiplies all weights by a gate.
constexpr size_t kMostGated = 16 << 10;

bool suits(const Algorithm& algorithm, const ConvShape& shape, uint32_t isa, bool bf16) {
  if ((shape.images_read > 1 || shape.is_gated) && algorithm.make != make_gemm_conv) return false;
  if (!algorithm.suits(shape, isa)) return false;
  if (!bf16) return algorithm.make != nullptr;
  if (algorithm.make_bf16 == make_winograd_conv_bf16) return suits_winograd_bf16(shape);
  return algorithm.make_bf16 && (algorithm.tiles != Tiles::kAll || has_tiles(isa));
}

// Whether weights with their outputs last are read as fast as packed ones: whole vectors of them, in
// rows that are not long; few are packed in no time.
bool is_well_read(const ConvShape& s) {
  constexpr size_t kVector = 8, kLongest = 256, kFewest = 1024;
  return s.groups == 1 && s.out_channels % kVector == 0 && s.out_channels <= kLongest &&
         s.out_channels * s.taps() * s.channels >= kFewest;
}

struct Ranked {
  const Algorithm* algorithm;
  CostTerms terms;
  double seconds;
};

// Those that suit the shape, the best first.
struct Ranking {
  Ranking(const ConvShape& shape, uint32_t isa, bool bf16) {
    const ConvCosts costs(isa, bf16);
    for (const Algorithm& each : kAlgorithms) {
      const bool is_gemm = each.make == make_gemm_conv || each.make == make_row_conv;
      if (!suits(each, shape, isa, bf16) || (shape.outputs_last && !is_gemm)) continue;
      const CostTerms terms = each.terms(shape, costs), &prices = costs.prices.*each.prices;
      const double sum = std::inner_product(terms.begin(), terms.end(), prices.begin(), 0.0);
      const Ranked ranked{&each, terms, sum * costs.scale * 1e-9};
      Ranked* place = last++;
      for (; place != list && place[-1].seconds > ranked.seconds; --place) *place = place[-1];
      *place = ranked;
    }
  }
  const Ranked* begin() const { return list; }
  const Ranked* end() const { return last; }

  Ranked list[std::size(kAlgorithms)];
  Ranked* last = list;
};

bool wants_exact(const Node& node) { return node.attrs.text("precision", "high") == "high"; }

}  // namespace

std::vector<Candidate> conv_candidates(const Node& node) {
  std::vector<Candidate> candidates;
  const bool is_gated = node.input(kGate);
  if (is_gated && (image(node.in(kX)).shape[0] != 1 || node.in(kWeights).count > kMostGated))
    return candidates;
  const bool exact = wants_exact(node);
  const ConvShape shape(node);
  if (shape.outputs_last && !is_well_read(shape)) return candidates;
  for (const Ranked& each : Ranking(shape, node.isa, Conv::is_bf16(node))) {
    if (exact && !each.algorithm->exact) continue;
    candidates.push_back(
        {each.algorithm->name, each.seconds, {each.terms.begin(), each.terms.end()}});
  }
  return candidates;
}

PALM_OPERANDS(conv, kConvOperands)
StepPtr make_conv(const Node& node) {
  const ConvShape shape(node);
  const std::string asked = node.attrs.text("algorithm", "");
  const bool exact = wants_exact(node);
  std::string known;
  const bool bf16 = Conv::is_bf16(node);
  for (const Ranked& each : Ranking(shape, node.isa, bf16)) {
    const Algorithm& algorithm = *each.algorithm;
    if (asked.empty() ? algorithm.exact || !exact : asked == algorithm.name) {
      Node limited = node;
      if (has_tiles(node.isa) && algorithm.tiles == Tiles::kNone)
        limited.isa &= ~kAmxBf16 | kAvx512Bf16;
      return (bf16 ? algorithm.make_bf16 : algorithm.make)(limited, shape);
    }
    known += std::string(known.empty() ? "" : ", ") + algorithm.name;
  }
  fail(Fault::kModel, "attribute algorithm: expected one of %s, got %.40s", known.c_str(),
       asked.c_str());
}

}  // namespace palm
