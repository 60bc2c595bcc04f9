// Convolution: depthwise by its own kernel, 3x3 by Winograd, wide images as a GEMM for each row,
// the rest as a GEMM of the image itself or of patches gathered from it.
#include <array>
#include <iterator>
#include <numeric>

#include "base/needs.h"
#include "kernels/conv/conv.h"
#include "kernels/conv/cost.h"
#include "kernels/winograd/winograd.h"

namespace palm {
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
  bool (*suits_bf16)(const ConvShape& shape) = nullptr;  // besides; null: it suits those
  bool reads_outputs_last = false;
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

constexpr size_t kCount = 9;
using Algorithms = std::array<Algorithm, kCount>;

// Those that the library needs; in place of the others one that makes nothing, and nothing of them
// is linked.
constexpr Algorithms needed_of(const Algorithms& all) {
  Algorithms needed{};
  for (size_t i = 0; i < kCount; ++i) {
    if (!needs_way(all[i].name)) continue;
    needed[i] = all[i];
    if (!kNeedsBf16) needed[i].make_bf16 = nullptr, needed[i].suits_bf16 = nullptr;
  }
  return needed;
}

// Where two cost the same the first one is taken. Winograd: Lavin and Gray, Fast Algorithms for
// Convolutional Neural Networks, arXiv 1509.09308.
constexpr Algorithms kAlgorithms = needed_of({{
    {"depthwise", if_it<suits_depthwise>, true, depthwise_terms, &ConvPrices::depthwise,
     make_depthwise_conv, make_depthwise_conv_bf16, Tiles::kEither},
    {"gemm", always, true, gemm_terms, &ConvPrices::gemm, make_gemm_conv, make_gemm_conv_bf16,
     Tiles::kNone, nullptr, true},
    {"sparse", if_it<suits_sparse>, true, sparse_terms, &ConvPrices::sparse, make_sparse_conv, nullptr},
    {"rows", if_it<suits_rows>, true, row_terms, &ConvPrices::rows, make_row_conv, make_row_conv_bf16,
     Tiles::kNone, nullptr, true},
    {"winograd_2", suits_tile<2>, true, tile_terms<2>, &ConvPrices::winograd_2, make_tiles<2>,
     nullptr},
    {"winograd_4", suits_tile<4>, true, tile_terms<4>, &ConvPrices::winograd_4, make_tiles<4>,
     make_winograd_conv_bf16, Tiles::kNone, suits_winograd_bf16},
    {"winograd_6", suits_tile<6>, false, tile_terms<6>, &ConvPrices::winograd_6, make_tiles<6>,
     nullptr},
    {"amx_gemm", always, true, amx_gemm_terms, &ConvPrices::amx_gemm, nullptr, make_gemm_conv_bf16,
     Tiles::kAll},
    {"amx_rows", if_it<suits_rows>, true, amx_row_terms, &ConvPrices::amx_rows, nullptr,
     make_row_conv_bf16, Tiles::kAll},
}});

bool has_tiles(uint32_t isa) { return (isa & kAmxBf16) == kAmxBf16; }

// Each part of the picture that a thread takes multiplies all weights by a gate.
constexpr size_t kMostGated = 16 << 10;

bool suits(const Algorithm& algorithm, const ConvShape& shape, uint32_t isa, bool bf16) {
  if (!(bf16 ? algorithm.make_bf16 : algorithm.make)) return false;
  if ((shape.images_read > 1 || shape.is_gated) && algorithm.make != make_gemm_conv) return false;
  if (!algorithm.suits(shape, isa)) return false;
  if (!bf16) return true;
  if (algorithm.suits_bf16) return algorithm.suits_bf16(shape);
  return algorithm.tiles != Tiles::kAll || has_tiles(isa);
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
      if (!suits(each, shape, isa, bf16)) continue;
      if (shape.outputs_last && !each.reads_outputs_last) continue;
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

  Ranked list[kCount];
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
  if (known.empty()) fail(Fault::kUnsupported, "no convolution of bfloat16 in this library");
  fail(Fault::kModel, "attribute algorithm: expected one of %s, got %.40s", known.c_str(),
       asked.c_str());
}

}  // namespace palm
