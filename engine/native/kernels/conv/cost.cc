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
    {0.02, 0.507, 0, 0.108, 502},                    // depthwise
    {0.0163, 0.142, 0.185, 0, 0.061, 573},           // winograd_2
    {0.017, 0.158, 0.189, 0.021, 0.199, 760},        // winograd_4
    {0.0164, 0.24, 0.232, 0.0638, 0.407, 3.73e+03},  // winograd_6
    {0.018, 0.0321, 0.0758, 0.209, 0.0428, 155},     // rows
    {0.0173, 0.0473, 3.14, 0.0621, 0.392, 0.0475},   // gemm
};
constexpr ConvPrices kPricesAvx2 = {
    {0.0286, 0.599, 0, 0.115},                      // depthwise
    {0.0171, 0.139, 0.227, 0.00561, 0.104, 871},    // winograd_2
    {0.0166, 0.255, 0.264, 0.0733, 0.148, 171},     // winograd_4
    {0.0192, 0.423, 0.23, 0.069, 0.315, 6.13e+03},  // winograd_6
    {0.0178, 0.0525, 0.0935, 0.0237, 0.0317},       // rows
    {0.0171, 0.0671, 3.14, 0.0662, 0, 0.0401},      // gemm
};

double ceil_to(size_t value, size_t unit) {
  return static_cast<double>((value + unit - 1) / unit * unit);
}

// Rows that begin whole pages apart share a few sets of the L1 cache.
bool is_aliased(size_t floats) { return floats % 1024 == 0; }

// Floats of x and y that an L2 cache of 1 MB does not hold.
double far_floats(const ConvShape& s) {
  constexpr double kNear = 256 << 10;
  const double all =
      static_cast<double>(s.images * s.height * s.width * s.channels + s.pixels * s.out_channels);
  return std::max(0.0, all - kNear);
}

}  // namespace

ConvCosts::ConvCosts(uint32_t isa)
    : prices(isa & kAvx512 ? kPricesAvx512 : kPricesAvx2),
      scale(isa & (kAvx512 | kAvx2) ? 1 : 2),
      lanes(isa & (kAvx512 | kAvx2) ? 8 : 4) {}

// Multiply-adds of whole vectors; channels repeated; inputs read; far floats; one call.
CostTerms depthwise_terms(const ConvShape& s, size_t lanes) {
  const double pixels = static_cast<double>(s.pixels);
  const double inputs = static_cast<double>(s.images * s.height * s.width * s.channels);
  return {pixels * ceil_to(s.out_channels, lanes) * static_cast<double>(s.taps()),
          s.group_out > 1 ? inputs * static_cast<double>(s.group_out) : 0, inputs, far_floats(s),
          1};
}

// Multiply-adds of whole vectors; floats of the tiles gathered, and scattered; weights; far floats;
// one call.
CostTerms winograd_terms(const ConvShape& s, size_t lanes, size_t tile) {
  const size_t patch = tile + (s.kernel_height + s.stride_x - 1) / s.stride_x - 1;
  const double products = static_cast<double>(patch * patch);
  const double tiles = static_cast<double>(s.images) * ceil_to(s.out_height, tile) *
                       ceil_to(s.out_width, tile) / static_cast<double>(tile * tile);
  const double in = static_cast<double>(s.channels * s.stride_y * s.stride_x);
  const double out = static_cast<double>(s.out_channels);
  // Too many to be still in L3 from the run before: about five times as far away.
  constexpr double kKept = 4 << 20, kFar = 5;
  const double weights = products * in * out;
  return {tiles * products * in * ceil_to(s.out_channels, lanes),
          tiles * products * in,
          tiles * products * out,
          weights + (kFar - 1) * std::max(0., weights - kKept),
          far_floats(s),
          1};
}

// Multiply-adds of whole tiles; outputs; floats put into lines; floats read from pixels that share
// cache sets; far floats; one call.
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
          is_aliased(s.stride_x * s.channels) ? static_cast<double>(s.pixels) * depth : 0,
          far_floats(s),
          1};
}

// Multiply-adds of whole vectors; outputs; patches' pieces, and their floats; floats read from
// pixels that share cache sets; far floats.
CostTerms gemm_terms(const ConvShape& s, size_t lanes) {
  const double pixels = static_cast<double>(s.pixels), groups = static_cast<double>(s.groups);
  const double depth = static_cast<double>(s.taps() * s.group_channels);
  const bool moved = !s.is_matrix();
  return {pixels * groups * ceil_to(s.group_out, lanes) * depth,
          pixels * static_cast<double>(s.out_channels),
          moved ? pixels * static_cast<double>(s.taps()) * groups : 0,
          moved ? pixels * depth * groups : 0,
          is_aliased(s.taps() * s.channels) ? pixels * depth * groups : 0,
          far_floats(s)};
}

}  // namespace palm
