#pragma once
#include <array>
#include <cstdint>

#include "kernels/conv/conv.h"

namespace palm {

// What a convolution does, counted: each term times its price is time. See cost.cc for what they
// are, and calibrate.py for how prices are measured.
using CostTerms = std::array<double, 6>;

// Nanoseconds for one of each term.
struct ConvPrices {
  CostTerms depthwise, winograd_2, winograd_4, winograd_6, rows, gemm, sparse;
  CostTerms amx_gemm{}, amx_rows{};
};

// Of one core of the machine they were measured on. Elsewhere they say what is faster, not by how
// much time.
struct ConvCosts {
  ConvCosts(uint32_t isa, bool bf16);

  const ConvPrices& prices;
  uint32_t isa;
  double scale;     // of a narrower instruction set that was not measured
  size_t lanes;     // columns of a product are computed in so many
  size_t together;  // sums are of a multiple of so many products
};

CostTerms depthwise_terms(const ConvShape& shape, const ConvCosts& costs);
CostTerms winograd_terms(const ConvShape& shape, const ConvCosts& costs, size_t tile);
CostTerms row_terms(const ConvShape& shape, const ConvCosts& costs);
CostTerms gemm_terms(const ConvShape& shape, const ConvCosts& costs);
CostTerms sparse_terms(const ConvShape& shape, const ConvCosts& costs);
CostTerms amx_gemm_terms(const ConvShape& shape, const ConvCosts& costs);
CostTerms amx_row_terms(const ConvShape& shape, const ConvCosts& costs);

}  // namespace palm
