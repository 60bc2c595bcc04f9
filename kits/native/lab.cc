#include "lab.h"

#include <algorithm>
#include <cmath>

namespace palm_kits {
namespace {

// From linear light to X, Y and Z over those of white, by rows; and back.
constexpr double kWhite[3] = {0.950456, 1, 1.088754};
constexpr double kToXyz[3][3] = {
    {0.412453, 0.357580, 0.180423}, {0.212671, 0.715160, 0.072169}, {0.019334, 0.119193, 0.950227}};
constexpr double kFromXyz[3][3] = {{3.240479, -1.53715, -0.498535},
                                   {-0.969256, 1.875991, 0.041556},
                                   {0.055648, -0.204043, 1.057311}};

// OpenCV has the colours of 33 levels a channel, and goes between them by sixteenths.
constexpr int kLevels = 33, kOne = 1 << 14, kCell = 9, kShare = 5, kShares = 16;

struct Tables {
  std::vector<int16_t> lab;    // of each three levels
  std::vector<float> encoded;  // linear light to sRGB: a spline, four coefficients a place

  Tables();
  static constexpr int kPlaces = 1024;
};

double decoded(double x) { return x <= 0.04045 ? x / 12.92 : std::pow((x + 0.055) / 1.055, 2.4); }
double encoded(double x) {
  return x <= 0.0031308 ? x * 12.92 : 1.055 * std::pow(x, 1 / 2.4) - 0.055;
}

Tables::Tables() : lab(3 * kLevels * kLevels * kLevels), encoded(4 * kPlaces) {
  const auto root = [](double x) {
    return x > 216.0 / 24389 ? std::cbrt(x) : x * (841.0 / 108) + 16.0 / 116;
  };
  int16_t* to = lab.data();
  for (int red = 0; red < kLevels; ++red) {
    for (int green = 0; green < kLevels; ++green) {
      for (int blue = 0; blue < kLevels; ++blue, to += 3) {
        const double light[3] = {decoded(red / 32.0), decoded(green / 32.0), decoded(blue / 32.0)};
        double xyz[3];
        for (int i = 0; i < 3; ++i) {
          xyz[i] = 0;
          for (int k = 0; k < 3; ++k)
            xyz[i] += light[k] * static_cast<double>(static_cast<float>(kToXyz[i][k] / kWhite[i]));
        }
        const double x = root(xyz[0]), y = root(xyz[1]), z = root(xyz[2]);
        const double l = xyz[1] > 216.0 / 24389 ? 116 * y - 16 : xyz[1] * (24389.0 / 27);
        to[0] = static_cast<int16_t>(rounded(kOne * l / 100));
        to[1] = static_cast<int16_t>(rounded(kOne * (500 * (x - y) + 128) / 256));
        to[2] = static_cast<int16_t>(rounded(kOne * (200 * (y - z) + 128) / 256));
      }
    }
  }
  // A cubic spline through equally spaced places, straight at both ends.
  std::vector<double> at, slope(kPlaces + 1), up(kPlaces + 1);
  for (int i = 0; i <= kPlaces; ++i)
    at.push_back(palm_kits::encoded(static_cast<double>(i) / kPlaces));
  for (size_t i = 1; i < kPlaces; ++i) {
    const double bend = 3 * (at[i + 1] - 2 * at[i] + at[i - 1]), low = 1 / (4 - slope[i - 1]);
    slope[i] = low, up[i] = (bend - up[i - 1]) * low;
  }
  double next = 0;
  for (size_t i = kPlaces; i-- > 0;) {
    const double own = up[i] - slope[i] * next;
    const double along = at[i + 1] - at[i] - (next + 2 * own) / 3, cubic = (next - own) / 3;
    float* const four = &encoded[4 * i];
    four[0] = static_cast<float>(at[i]), four[1] = static_cast<float>(along);
    four[2] = static_cast<float>(own), four[3] = static_cast<float>(cubic);
    next = own;
  }
}

const Tables& tables() {
  static const Tables made;
  return made;
}

}  // namespace

void to_lab(const uint8_t* rgb, size_t count, float* lab) {
  const int16_t* const table = tables().lab.data();
  for (size_t i = 0; i < count; ++i, rgb += 3, lab += 3) {
    int cell[3], share[3];
    for (int c = 0; c < 3; ++c) {
      const int at = nearest(static_cast<float>(rgb[c]) * (1.f / 255.f) * static_cast<float>(kOne));
      cell[c] = at >> kCell, share[c] = at >> kShare & (kShares - 1);
    }
    int sums[3] = {1 << 11, 1 << 11, 1 << 11};
    for (int corner = 0; corner < 8; ++corner) {
      int weight = 1, at = 0;
      for (int c = 0; c < 3; ++c) {
        const int further = corner >> c & 1;
        weight *= further ? share[c] : kShares - share[c];
        at = at * kLevels + std::min(cell[c] + further, kLevels - 1);
      }
      for (int c = 0; c < 3; ++c) sums[c] += weight * table[3 * at + c];
    }
    float value[3];
    for (int c = 0; c < 3; ++c)
      value[c] = static_cast<float>(sums[c] >> 12) / static_cast<float>(kOne);
    lab[0] = value[0] * 100.f, lab[1] = value[1] * 256.f - 128.f, lab[2] = value[2] * 256.f - 128.f;
  }
}

LabImage to_lab(View x) {
  LabImage y(x.width, x.height);
  for (int row = 0; row < x.height; ++row)
    to_lab(x.row(row), static_cast<size_t>(x.width), y.row(row));
  return y;
}

void to_rgb(const float* lab, size_t count, uint8_t* rgb) {
  const float* const table = tables().encoded.data();
  float matrix[3][3];
  for (int i = 0; i < 3; ++i)
    for (int k = 0; k < 3; ++k) matrix[i][k] = static_cast<float>(kFromXyz[i][k] * kWhite[k]);
  for (size_t i = 0; i < count; ++i, lab += 3, rgb += 3) {
    float y, root_y;
    if (lab[0] <= 8.f) y = lab[0] / 903.3f, root_y = 7.787f * y + 16.f / 116.f;
    else root_y = (lab[0] + 16.f) / 116.f, y = root_y * root_y * root_y;
    float xyz[3] = {lab[1] / 500.f + root_y, y, root_y - lab[2] / 200.f};
    for (int k = 0; k < 3; k += 2) {
      const float root = xyz[k];
      xyz[k] = root <= 6.f / 29.f ? (root - 16.f / 116.f) / 7.787f : root * root * root;
    }
    for (int c = 0; c < 3; ++c) {
      const float light = matrix[c][0] * xyz[0] + matrix[c][1] * xyz[1] + matrix[c][2] * xyz[2];
      const float at = std::min(std::max(light, 0.f), 1.f) * static_cast<float>(Tables::kPlaces);
      const int place = std::min(static_cast<int>(at), Tables::kPlaces - 1);
      const float* const four = table + 4 * place;
      const float on = at - static_cast<float>(place);
      const float value = ((four[3] * on + four[2]) * on + four[1]) * on + four[0];
      rgb[c] = static_cast<uint8_t>(clamped(nearest(std::abs(value * 255.f)), 0, 255));
    }
  }
}

Lab mean_of(LabView lab, MaskView weight) {
  double sums[3] = {}, total = 0;
  for (int row = 0; row < lab.height; ++row) {
    const float *from = lab.row(row), *share = weight.row(row);
    for (int i = 0; i < lab.width; ++i, from += 3) {
      if (share[i] == 0) continue;
      total += share[i];
      for (int c = 0; c < 3; ++c) sums[c] += static_cast<double>(share[i]) * from[c];
    }
  }
  if (total <= 0) return {};
  return {static_cast<float>(sums[0] / total), static_cast<float>(sums[1] / total),
          static_cast<float>(sums[2] / total)};
}

double sum_of(MaskView x) {
  double sum = 0;
  for (int row = 0; row < x.height; ++row)
    for (int i = 0; i < x.width; ++i) sum += x.row(row)[i];
  return sum;
}

}  // namespace palm_kits
