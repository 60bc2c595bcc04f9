// A roofline in pieces (Williams, Waterman and Patterson, Roofline, CACM 2009): what is computed,
// what is moved and what is merely done often are each paid for by themselves, as they hardly
// overlap within a core's L2. Prices are the non-negative least squares of relative errors over
// some 300 shapes.
#include "kernels/conv/cost.h"

#include <algorithm>

#include "base/isas.h"
#include "kernels/gemm_bf16/gemm_bf16.h"

namespace palm {
namespace {

// One core of a Zen 4 at about 3.7 GHz.
constexpr ConvPrices kPricesAvx512 = {
    {0.0194, 0.427, 0.000496, 0.109, 140},            // depthwise
    {0.0161, 0.149, 0.205, 0.00153, 0.138},           // winograd_2
    {0.0147, 0.248, 0.195, 0.0408, 0.439, 45.5},      // winograd_4
    {0.0173, 0.416, 0.174, 0.0193, 0.571, 2.88e+03},  // winograd_6
    {0.0174, 0.0441, 0.0919, 0.286, 0.0413},          // rows
    {0.0177, 0.0543, 2.85, 0.0603, 0.175},            // gemm
    {0.0248, 0.119, 0.162, 1.26},                     // sparse
};
constexpr ConvPrices kPricesAvx2 = {
    {0.0275, 0.497, 0.0121, 0.0851},                  // depthwise
    {0.0173, 0.171, 0.264, 0, 0.0258, 368},           // winograd_2
    {0.0155, 0.353, 0.301, 0.054, 0.359, 323},        // winograd_4
    {0.0176, 0.593, 0.304, 0.0696, 0.499, 1.99e+03},  // winograd_6
    {0.0175, 0.0664, 0.0851, 0.0442, 0.0342},         // rows
    {0.0174, 0.0949, 2.86, 0.0692, 0.0172, 0.0102},   // gemm
    {0.0248, 0.118, 0.195, 1.5},                      // sparse
};

// One core of a Xeon with AMX at about 3.8 GHz; sparse, which was not measured, as on Zen 4.
constexpr ConvPrices kPricesAmx = {
    {0.0159, 0.372, 0.0359, 0.175, 1.62e+03},         // depthwise
    {0.00793, 0.249, 0.179, 0.0969, 0.2, 1.38e+03},   // winograd_2
    {0.00777, 0.321, 0.213, 0.1, 0.113, 3.35e+03},    // winograd_4
    {0.0103, 0.359, 0.233, 0.101, 0.17, 3.71e+03},    // winograd_6
    {0.0117, 0.0571, 0.104, 0.11, 0.0178, 1.95e+03},  // rows
    {0.0108, 0.133, 2.69, 0.126, 0, 0.00659},         // gemm
    {0.0248, 0.119, 0.162, 1.26},                     // sparse
};

// With products of bfloat16.
constexpr ConvPrices kPricesBf16 = {
    {0.0108, 2.49, 0.11, 0.0683},                    // depthwise
    {},                                              // winograd_2
    {0.00722, 0.274, 0.298, 0.0235, 0.377},          // winograd_4
    {},                                              // winograd_6
    {0.00959, 0.056, 0.0659, 0.00856, 0.0249, 530},  // rows
    {0.00875, 0.125, 3.66, 0.0432, 0, 0.0163},       // gemm
    {},                                              // sparse
};

// The same on the Xeon.
constexpr ConvPrices kPricesAmxBf16 = {
    {0.0128, 3.3, 0.12, 0, 1.09e+03},             // depthwise
    {},                                           // winograd_2
    {0.0192, 0.247, 0.14, 0.00494, 0, 6.18e+03},  // winograd_4
    {},                                           // winograd_6
    {0.0187, 0.0703, 0.214, 0, 0, 1.08e+03},      // rows
    {0.0181, 0.199, 3.64, 0.14},                  // gemm
    {},                                           // sparse
    {0.164, 0.187, 3.6, 0.0576, 10.7, 0.00979},   // amx_gemm
    {0.0996, 0.0649, 0.114, 11.7, 0.0293, 200},   // amx_rows
};

const ConvPrices& prices_of(uint32_t isa, bool bf16) {
  isa &= kBuiltIsas;
  if ((isa & kAmxBf16) == kAmxBf16) return bf16 ? kPricesAmxBf16 : kPricesAmx;
  // Those of float16 were not measured.
  if (bf16 && (isa & kAvx512Bf16) == kAvx512Bf16) return kPricesBf16;
  return isa & kAvx512 ? kPricesAvx512 : kPricesAvx2;
}

double ceil_to(size_t value, size_t unit) {
  return static_cast<double>((value + unit - 1) / unit * unit);
}

// Rows that begin whole pages apart share a few sets of the L1 cache.
bool is_aliased(size_t floats) { return floats % 1024 == 0; }

// Numbers of x and y that an L2 cache of 1 MB does not hold.
double far_numbers(const ConvShape& s, const ConvCosts& costs) {
  const double near = static_cast<double>((256 << 10) * costs.together);
  const double all =
      static_cast<double>(s.images * s.height * s.width * s.channels + s.pixels * s.out_channels);
  return std::max(0.0, all - near);
}

// What a product of m rows by n columns takes of tiles (gemm_bf16/amx_bf16.cc).
struct TileCounts {
  TileCounts(size_t m, size_t n, size_t k, size_t segments) {
    const size_t down = std::max<size_t>(1, (m + 15) / 16), across = (n + 15) / 16, pairs = k / 2;
    const double steps =
        static_cast<double>(pairs / tile_words(pairs) * segments) * static_cast<double>(across);
    products = static_cast<double>((m + down - 1) / down * down) * steps;
    loads = static_cast<double>((down + 1) / 2) * steps;
  }
  double products;  // rows of 16 columns and up to 32 numbers each
  double loads;     // of weights' tiles
};

}  // namespace

ConvCosts::ConvCosts(uint32_t isa, bool bf16)
    : prices(prices_of(isa, bf16)),
      isa(isa),
      scale(isa & (kAvx512 | kAvx2) ? 1 : 2),
      lanes(isa & (kAvx512 | kAvx2) ? 8 : 4),
      together(bf16 ? 2 : 1) {}

// Multiply-adds of whole vectors; channels repeated; inputs read; far numbers; one call.
CostTerms depthwise_terms(const ConvShape& s, const ConvCosts& costs) {
  const double pixels = static_cast<double>(s.pixels);
  const double inputs = static_cast<double>(s.images * s.height * s.width * s.channels);
  return {pixels * ceil_to(s.out_channels, costs.lanes) * static_cast<double>(s.taps()),
          s.group_out > 1 ? inputs * static_cast<double>(s.group_out) : 0, inputs,
          far_numbers(s, costs), 1};
}

// Multiply-adds of whole vectors; floats of the tiles gathered, and scattered; weights; far
// numbers; one call.
CostTerms winograd_terms(const ConvShape& s, const ConvCosts& costs, size_t tile) {
  const size_t patch = tile + (s.kernel_height + s.stride_x - 1) / s.stride_x - 1;
  const double products = static_cast<double>(patch * patch);
  const bool keeps_taps = costs.together == 1 && winograd_keeps_taps(s, tile, costs.isa);
  const size_t across = (s.out_width + tile - 1) / tile, down = (s.out_height + tile - 1) / tile;
  // Bringing kept taps into the other basis takes as long as two tiles by them.
  const double tiles = ceil_to(s.images * across * down, keeps_taps ? 2 : 1);
  const double in = static_cast<double>(s.channels * s.stride_y * s.stride_x);
  const double out = static_cast<double>(s.out_channels);
  // Too many to be still in L3 from the run before: about five times as far away.
  constexpr double kKept = 4 << 20, kFar = 5;
  const double weights = (keeps_taps ? static_cast<double>(s.taps()) : products) * in * out;
  return {tiles * products * in * ceil_to(s.out_channels, costs.lanes),
          tiles * products * in,
          tiles * products * out,
          weights + (kFar - 1) * std::max(0., weights - kKept),
          far_numbers(s, costs),
          1};
}

// Multiply-adds of whole tiles; outputs; floats put into lines; floats read from pixels that share
// cache sets; far numbers; one call.
CostTerms row_terms(const ConvShape& s, const ConvCosts& costs) {
  constexpr size_t kTileRows = 4;
  const double rows = static_cast<double>(s.images * s.out_height);
  const size_t channels = s.channels + s.kernel_width * s.channels % costs.together;
  const double depth = static_cast<double>(s.taps() * channels);
  const double line =
      static_cast<double>(((s.out_width - 1) * s.stride_x + s.kernel_width) * channels);
  const double fresh = static_cast<double>(std::min(s.stride_y, s.kernel_height));
  return {rows * ceil_to(s.out_width, kTileRows) * ceil_to(s.out_channels, costs.lanes) * depth,
          static_cast<double>(s.pixels * s.out_channels),
          rows * line * fresh,
          is_aliased(s.stride_x * s.x_pixel) ? static_cast<double>(s.pixels) * depth : 0,
          far_numbers(s, costs),
          1};
}

// Multiply-adds of whole vectors; outputs; patches' pieces, and their floats, or the weights that a
// gate multiplies; floats read from pixels that share cache sets; far numbers.
CostTerms gemm_terms(const ConvShape& s, const ConvCosts& costs) {
  const double pixels = static_cast<double>(s.pixels), groups = static_cast<double>(s.groups);
  const double depth = ceil_to(s.taps() * s.group_channels * s.images_read, costs.together);
  const bool moved = !s.is_matrix();
  return {pixels * groups * ceil_to(s.group_out, costs.lanes) * depth,
          pixels * static_cast<double>(s.out_channels),
          moved ? pixels * static_cast<double>(s.taps()) * groups : 0,
          moved ? pixels * depth * groups
                : s.is_gated ? static_cast<double>(s.channels * s.out_channels) : 0,
          is_aliased(s.is_matrix() ? s.x_pixel : s.taps() * s.channels) ? pixels * depth * groups : 0,
          far_numbers(s, costs)};
}

// Multiply-adds of whole vectors; floats transposed into lines, and out of them; weights taken for
// each block of pixels whose lines are not in L1.
CostTerms sparse_terms(const ConvShape& s, const ConvCosts& costs) {
  constexpr size_t kBlock = 64;
  constexpr double kNear = 200;
  const double pixels = static_cast<double>(s.pixels), weights = static_cast<double>(s.nonzeros);
  const double channels = static_cast<double>(s.channels);
  const double blocks = static_cast<double>((s.pixels + kBlock - 1) / kBlock);
  return {ceil_to(s.pixels, costs.lanes * 2) * weights, pixels * channels,
          pixels * static_cast<double>(s.out_channels),
          blocks * weights * std::max(0., 1 - kNear / channels)};
}

// Rows of tiles' products; outputs; patches' pieces, and their numbers; tiles of weights loaded;
// far numbers.
CostTerms amx_gemm_terms(const ConvShape& s, const ConvCosts& costs) {
  const double pixels = static_cast<double>(s.pixels), groups = static_cast<double>(s.groups);
  const size_t depth = s.taps() * s.group_channels + s.taps() * s.group_channels % 2;
  const bool moved = !s.is_matrix() || depth != s.group_channels;
  const TileCounts tiles(s.pixels, s.group_out, depth, 1);
  return {tiles.products * groups,
          pixels * static_cast<double>(s.out_channels),
          moved ? pixels * static_cast<double>(s.taps()) * groups : 0,
          moved ? pixels * static_cast<double>(depth) * groups : 0,
          tiles.loads * groups,
          far_numbers(s, costs)};
}

// Rows of tiles' products; outputs; numbers put into lines; tiles of weights loaded; far numbers;
// rows.
CostTerms amx_row_terms(const ConvShape& s, const ConvCosts& costs) {
  const double rows = static_cast<double>(s.images * s.out_height);
  const size_t channels = s.channels + s.kernel_width * s.channels % 2;
  const TileCounts tiles(s.out_width, s.out_channels, s.kernel_width * channels, s.kernel_height);
  const double line =
      static_cast<double>(((s.out_width - 1) * s.stride_x + s.kernel_width) * channels);
  const double fresh = static_cast<double>(std::min(s.stride_y, s.kernel_height));
  return {rows * tiles.products,
          static_cast<double>(s.pixels * s.out_channels),
          rows * line * fresh,
          rows * tiles.loads,
          far_numbers(s, costs),
          rows};
}

}  // namespace palm
