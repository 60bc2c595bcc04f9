#include "shimmer.h"

#include <algorithm>
#include <cmath>

#include "face_points.h"
#include "gaussian.h"
#include "warp.h"

namespace palm_kits {
namespace {

// These are the numbers of palmkit.kits.tryon.shimmer, which says what each means.
constexpr float kSparkle = 34;
constexpr int kGrainsPerCm = 22, kSide = 24 * kGrainsPerCm;

// The points kLipsOuter of the canonical face, x and y in centimetres.
constexpr double kLips[20][2] = {
    {-2.5845292, -6.726224}, {-2.3345253, -7.0362315}, {-1.9906694, -7.375994},
    {-1.4690902, -7.751686}, {-0.7901092, -8.004915},  {0.0, -8.072949},
    {0.7901092, -8.004915},  {1.4690902, -7.751686},   {1.9906694, -7.375994},
    {2.3345253, -7.0362315}, {2.5845292, -6.726224},   {2.3536205, -6.5556755},
    {1.9978017, -6.384932},  {1.5150223, -6.1825175},  {0.7827352, -5.9939637},
    {0.0, -6.1314034},       {-0.7827352, -5.9939637}, {-1.5150223, -6.1825175},
    {-1.9978017, -6.384932}, {-2.3536205, -6.5556755}};

// The numbers of numpy.random.default_rng(7): O'Neill's PCG64 (XSL RR).
class Random {
 public:
  uint64_t next() {
    const Wide product = times(high_, low_);
    low_ = product.low + kAddLow;
    high_ = product.high + kAddHigh + (low_ < kAddLow);
    const unsigned turn = high_ >> 58;
    const uint64_t mixed = high_ ^ low_;
    return mixed >> turn | mixed << (-turn & 63);
  }
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

 private:
  struct Wide {
    uint64_t high, low;
  };
  static constexpr uint64_t kTimesHigh = 0x2360ED051FC65DA4, kTimesLow = 0x4385DF649FCCF645;
  static constexpr uint64_t kAddHigh = 0xc4751896ce8acebf, kAddLow = 0x66887f5ac070d959;

  static Wide times(uint64_t high, uint64_t low) {
    const uint64_t a = low >> 32, b = low & 0xFFFFFFFF;
    const uint64_t c = kTimesLow >> 32, d = kTimesLow & 0xFFFFFFFF;
    const uint64_t middle = a * d + (b * d >> 32), rest = b * c + (middle & 0xFFFFFFFF);
    const uint64_t top = a * c + (middle >> 32) + (rest >> 32);
    return {top + high * kTimesLow + low * kTimesHigh, low * kTimesLow};
  }

  uint64_t high_ = 0x9d0aecc4e7b18891, low_ = 0x9ae2415a6b292038;
};

// Marsaglia, Tsang: The ziggurat method for generating random variables, 2000; 256 strips.
class Normal {
 public:
  Normal() {
    const double area =
        kEnd * height(kEnd) + std::sqrt(std::acos(0.0)) * std::erfc(kEnd / std::sqrt(2.0));
    const double wide = area / height(kEnd);
    double at = kEnd, before = kEnd;
    within_[0] = static_cast<uint64_t>(kEnd / wide * kScale), within_[1] = 0;
    width_[0] = wide / kScale, width_[255] = kEnd / kScale;
    height_[0] = 1, height_[255] = height(kEnd);
    for (size_t i = 254; i > 0; --i) {
      at = std::sqrt(-2 * std::log(area / at + height(at)));
      within_[i + 1] = static_cast<uint64_t>(at / before * kScale);
      before = at;
      height_[i] = height(at), width_[i] = at / kScale;
    }
  }

  double next() {
    for (;;) {
      const uint64_t bits = random_.next(), size = bits >> 9 & 0xFFFFFFFFFFFFF;
      const auto strip = static_cast<size_t>(bits & 0xFF);
      const double x = static_cast<double>(size) * width_[strip] * (bits >> 8 & 1 ? -1 : 1);
      if (size < within_[strip]) return x;
      if (strip) {
        const double above = height_[strip - 1] - height_[strip];
        if (above * random_.uniform() + height_[strip] < height(x)) return x;
        continue;
      }
      for (;;) {
        const double out = -std::log1p(-random_.uniform()) / kEnd;
        const double down = -std::log1p(-random_.uniform());
        if (down + down > out * out) return size >> 8 & 1 ? -(kEnd + out) : kEnd + out;
      }
    }
  }

 private:
  static constexpr double kEnd = 3.6541528853610087963519472518, kScale = 0x1p52;
  static double height(double x) { return std::exp(-0.5 * x * x); }

  Random random_;
  std::array<uint64_t, 256> within_;
  std::array<double, 256> width_, height_;
};

// Sparkles on the canonical face, 24 cm wide and high.
const Mask& grains() {
  static const Mask made = [] {
    Mask noise(kSide, kSide);
    Normal normal;
    std::generate_n(noise.data(), noise.size(), [&] { return static_cast<float>(normal.next()); });
    Mask soft = soften(noise, 0.6);
    double sum = 0, squares = 0;
    for (size_t i = 0; i < soft.size(); ++i) {
      const double value = soft.data()[i];
      sum += value, squares += value * value;
    }
    const double count = static_cast<double>(soft.size()), mean = sum / count;
    const auto spread = static_cast<float>(std::sqrt(squares / count - mean * mean));
    std::for_each(soft.data(), soft.data() + soft.size(), [&](float& x) {
      x = std::min(std::max(x / spread - 1.2f, 0.f), 2.f) * (kSparkle / 2);
    });
    return soft;
  }();
  return made;
}

// x, y and 1 of the canonical face to the canvas, by least squares.
Matrix affine(const Line& points) {
  double sums[3][5] = {};
  for (size_t i = 0; i < points.size(); ++i) {
    const double from[3] = {kLips[i][0], kLips[i][1], 1};
    const double all[5] = {from[0], from[1], from[2], points[i].x, points[i].y};
    for (int row = 0; row < 3; ++row)
      for (int k = 0; k < 5; ++k) sums[row][k] += from[row] * all[k];
  }
  // The points of lips are spread: no pivot is 0.
  for (int pivot = 0; pivot < 3; ++pivot) {
    for (int k = 4; k >= pivot; --k) sums[pivot][k] /= sums[pivot][pivot];
    for (int row = 0; row < 3; ++row) {
      if (row == pivot) continue;
      for (int k = 4; k >= pivot; --k) sums[row][k] -= sums[row][pivot] * sums[pivot][k];
    }
  }
  return {sums[0][3], sums[1][3], sums[2][3], sums[0][4], sums[1][4], sums[2][4]};
}

}  // namespace

Mask sparkle(const Canvas& canvas, int width, int height, Point corner) {
  const Matrix at = affine(canvas.picked(kLipsOuter));
  // From the texture's pixels to centimetres, y up, then to the part.
  constexpr double kScale = 1.0 / kGrainsPerCm, kMiddle = 12;
  const Matrix matrix{at.a * kScale,
                      -at.b * kScale,
                      at.c - kMiddle * at.a + kMiddle * at.b - static_cast<double>(corner.x),
                      at.d * kScale,
                      -at.e * kScale,
                      at.f - kMiddle * at.d + kMiddle * at.e - static_cast<double>(corner.y)};
  Mask y(width, height);
  if (matrix.a * matrix.e == matrix.b * matrix.d) return y;
  warp_alone<float, 1>(grains().rows(), inverse(matrix), y.rows());
  return y;
}

}  // namespace palm_kits
