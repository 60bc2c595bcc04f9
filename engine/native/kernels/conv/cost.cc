// A roofline in pieces (Williams, Waterman and Patterson, Roofline, CACM 2009): what is computed,
// what is moved and what is merely done often are each paid for by themselves, as they hardly
// overlap within a core's L2. Prices are the non-negative least squares of relative errors over
// some 300 shapes.
#include "kernels/conv/cost.h"

#include <algorithm>

namespace palm {
namespace {

// One core of a Zen 4 at about 3.7 GHz.
constexpr ConvPrices kPricesAvx512 = {
    {0.0208, 0, 0.41, 0.0496},              // depthwise
    {0.011, 0.333, 0.285, 0.0192},          // winograd_2
    {0.011, 0.333, 0.285, 0.0192},          // winograd_4
    {0.011, 0.333, 0.285, 0.0192},          // winograd_6
    {0.0175, 0.0416, 0.101, 0.818, 0.212},  // rows
    {0.0173, 0.0639, 2.5, 0.0722, 0.384},   // gemm
};
constexpr ConvPrices kPricesAvx2 = {
    {0.0256, 0.043, 0.421, 0.0437},          // depthwise
    {0.0127, 0.418, 0.385, 0.022, 0, 74.7},  // winograd_2
    {0.0127, 0.418, 0.385, 0.022, 0, 74.7},  // winograd_4
    {0.0127, 0.418, 0.385, 0.022, 0, 74.7},  // winograd_6
    {0.0175, 0.0641, 0.106, 0.654, 0.0363},  // rows
    {0.0172, 0.0835, 2.64, 0.0729},          // gemm
};

double ceil_to(size_t value, size_t unit) {
  return static_cast<double>((value + unit - 1) / unit * unit);
}

// Rows that begin whole pages apart share a few sets of the L1 cache.
bool is_aliased(size_t floats) { return floats % 1024 == 0; }

}  // namespace

ConvCosts::ConvCosts(uint32_t isa)
    : prices(isa & kAvx512 ? kPricesAvx512 : kPricesAvx2),
      scale(isa & (kAvx512 | kAvx2) ? 1 : 2),
      lanes(isa & (kAvx512 | kAvx2) ? 8 : 4) {}

// Multiply-adds of whole vectors; outputs; channels repeated; inputs read; rows.
CostTerms depthwise_terms(const ConvShape& s, size_t lanes) {
  const double pixels = static_cast<double>(s.pixels);
  const double inputs = static_cast<double>(s.images * s.height * s.width * s.channels);
  const double channels = ceil_to(s.out_channels, lanes);
  return {pixels * channels * static_cast<double>(s.taps()),
          pixels * channels,
          s.group_out > 1 ? inputs * static_cast<double>(s.group_out) : 0,
          inputs,
          static_cast<double>(s.images * s.out_height),
          1};
}

// Multiply-adds of whole vectors; floats of the tiles gathered, and scattered; weights.
CostTerms winograd_terms(const ConvShape& s, size_t lanes, size_t tile) {
  const double products = static_cast<double>((tile + 2) * (tile + 2));
  const double tiles = static_cast<double>(s.images) * ceil_to(s.out_height, tile) *
                       ceil_to(s.out_width, tile) / static_cast<double>(tile * tile);
  const double in = static_cast<double>(s.channels), out = static_cast<double>(s.out_channels);
  // Too many to be still in L3 from the run before: about five times as far away.
  constexpr double kKept = 4 << 20, kFar = 5;
  const double weights = products * in * out;
  return {tiles * products * in * ceil_to(s.out_channels, lanes),
          tiles * products * in,
          tiles * products * out,
          weights + (kFar - 1) * std::max(0., weights - kKept),
          0,
          1};
}

// Multiply-adds of whole tiles; outputs; floats put into lines; lines looked up; floats read from
// pixels that share cache sets.
CostTerms row_terms(const ConvShape& s, size_t lanes) {
  constexpr size_t kTileRows = 4;
  const double rows = static_cast<double>(s.images * s.out_height);
  const double depth = static_cast<double>(s.taps() * s.channels);
  const double line =
      static_cast<double>(((s.out_width - 1) * s.stride_x + s.kernel_width) * s.channels);
  const double fresh = static_cast<double>(std::min(s.stride_y, s.kernel_height));
  return {rows * ceil_to(s.out_width, kTileRows) * ceil_to(s.out_channels, lanes) * depth,
          static_cast<double>(s.pixels * s.out_channels),
          rows * line * fresh,
          rows * static_cast<double>(s.kernel_height),
          is_aliased(s.stride_x * s.channels) ? static_cast<double>(s.pixels) * depth : 0,
          1};
}

// Multiply-adds of whole vectors; outputs; patches' pieces, and their floats; floats read from
// pixels that share cache sets.
CostTerms gemm_terms(const ConvShape& s, size_t lanes) {
  const double pixels = static_cast<double>(s.pixels), groups = static_cast<double>(s.groups);
  const double depth = static_cast<double>(s.taps() * s.group_channels);
  const bool moved = !s.is_matrix();
  return {pixels * groups * ceil_to(s.group_out, lanes) * depth,
          pixels * static_cast<double>(s.out_channels),
          moved ? pixels * static_cast<double>(s.taps()) * groups : 0,
          moved ? pixels * depth * groups : 0,
          is_aliased(s.taps() * s.channels) ? pixels * depth * groups : 0,
          1};
}

}  // namespace palm
