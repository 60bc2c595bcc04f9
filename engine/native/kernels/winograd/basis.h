#pragma once
#include <cstddef>

namespace palm {
namespace {

// F(m, r) of Winograd's way (Lavin and Gray, Fast Algorithms for Convolutional Neural Networks,
// arXiv 1509.09308), in one dimension: m outputs of a kernel of r taps are as many products as the
// patch of x under them is long, of its values and the kernel's in another basis. Both are
// polynomials there, known by their values at that many points: pairs +-p, 0 if there is need of an
// odd one, and infinity. Numbers near 1 and their squares lose less than the usual 1 and 2 (Alam et
// al., Winograd Convolution for Deep Neural Networks: Efficient Point Selection, 2022); of those
// that floats hold exactly these did best in trials. In two dimensions, relative to the root mean
// square of y over 64 channels, they leave 3e-7 (2, 3), 8e-7 (4, 3), 3.5e-6 (6, 3), 9e-7 (4, 4); a
// plain sum leaves 6e-7.
//
// The points in order: the pairs, 0, infinity.
template <int kTile_, int kTaps_>
struct Basis {
  static constexpr int kTile = kTile_, kTaps = kTaps_, kPatch = kTile + kTaps - 1;
  static constexpr int kPairs = (kPatch - 1) / 2, kZero = kPatch % 2 == 0;
  static_assert(kPairs <= 3);

  struct Numbers {
    double point[kPairs];           // p
    double power[kPairs][kPatch];   // p^i
    double others[kPairs][kPairs];  // of x^2i in the product of x^2 - q^2, q the other pairs'
    double all[kPairs + 1];         // of x^2i in that of all pairs
    double values[kPatch][kTaps_];  // the kernel's values there from its taps
  };

  static constexpr Numbers numbers() {
    Numbers n{};
    constexpr double kPoints[4][3] = {{1}, {11. / 16, 11. / 8}, {.5, 1, 1.75}, {.375, .875, 1.625}};
    for (int k = 0; k < kPairs; ++k) {
      n.point[k] = kPoints[kPairs < 3 ? kPairs - 1 : 3 - kZero][k];
      n.power[k][0] = 1;
      for (int i = 1; i < kPatch; ++i) n.power[k][i] = n.power[k][i - 1] * n.point[k];
    }
    for (int k = 0; k <= kPairs; ++k) {
      double product[kPairs + 1] = {1};
      int degree = 0;
      for (int l = 0; l < kPairs; ++l) {
        if (l == k) continue;
        ++degree;
        for (int i = degree; i >= 0; --i)
          product[i] = (i ? product[i - 1] : 0) - n.power[l][2] * product[i];
      }
      for (int i = 0; i <= degree; ++i) (k < kPairs ? n.others[k] : n.all)[i] = product[i];
    }
    for (int k = 0; k < kPairs; ++k) {
      // The product of the point's distances from the others.
      double apart = 0;
      for (int i = 0; i < kPairs; ++i) apart += n.others[k][i] * n.power[k][2 * i];
      apart *= 2 * n.point[k] * (kZero ? n.point[k] : 1);
      for (int i = 0; i < kTaps; ++i) {
        const double value = n.power[k][i] / apart;
        n.values[2 * k][i] = value;
        // Of -p: an odd number of other points turns the sign of the product.
        n.values[2 * k + 1][i] = (i % 2 ? -value : value) * (kZero ? 1 : -1);
      }
    }
    if (kZero) n.values[kPatch - 2][0] = 1 / n.all[0];
    n.values[kPatch - 1][kTaps - 1] = 1;
    return n;
  }

  static constexpr Numbers kNumbers = numbers();
};

}  // namespace
}  // namespace palm
