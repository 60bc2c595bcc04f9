#include "guided.h"

#include <algorithm>
#include <cmath>

namespace palm_kits {
namespace {

constexpr float kNothing = 1e-4f;  // a side's least certainty, and the least that colours can say

int mirrored(int i, int length) {
  if (length == 1) return 0;
  while (i < 0 || i >= length) i = i < 0 ? -i : 2 * (length - 1) - i;
  return i;
}

std::vector<float> gaussian(int reach, float sigma) {
  std::vector<double> values;
  double total = 0;
  for (int i = -reach; i <= reach; ++i) {
    values.push_back(
        std::exp(-0.5 * (i / static_cast<double>(sigma)) * (i / static_cast<double>(sigma))));
    total += values.back();
  }
  std::vector<float> weights;
  for (double value : values) weights.push_back(static_cast<float>(value / total));
  return weights;
}

// Sums of neighbours, along rows and then along columns.
Mask summed(const Mask& x, const std::vector<float>& weights) {
  const int reach = static_cast<int>(weights.size()) / 2;
  Mask across(x.width(), x.height()), y(x.width(), x.height());
  for (int row = 0; row < x.height(); ++row) {
    for (int i = 0; i < x.width(); ++i) {
      float sum = 0;
      for (int t = -reach; t <= reach; ++t)
        sum += x.row(row)[mirrored(i + t, x.width())] * weights[static_cast<size_t>(t + reach)];
      across.row(row)[i] = sum;
    }
  }
  for (int row = 0; row < x.height(); ++row) {
    for (int t = -reach; t <= reach; ++t) {
      const float* const from = across.row(mirrored(row + t, x.height()));
      const float weight = weights[static_cast<size_t>(t + reach)];
      for (int i = 0; i < x.width(); ++i) y.row(row)[i] += from[i] * weight;
    }
  }
  return y;
}

// Places of a large axis among those of a small one.
struct Axis {
  std::vector<int> from;
  std::vector<float> weight;
  int step;

  Axis(int length, int count) : step(length > 1) {
    const double scale = static_cast<double>(length) / count, last = length - 1;
    for (int i = 0; i < count; ++i) {
      const double inside = std::min(std::max((i + 0.5) * scale - 0.5, 0.0), last);
      const double low = std::min(std::floor(inside), last - step);
      from.push_back(static_cast<int>(low));
      weight.push_back(static_cast<float>(inside - low));
    }
  }
};

// A grid's lines as wide as the picture, and the row between two of them.
class Lines {
 public:
  Lines(MaskView grid, int width, int height)
      : grid_(grid), rows_(grid.height, height), columns_(grid.width, width) {
    for (auto& line : lines_) line.resize(static_cast<size_t>(width));
    row_.resize(static_cast<size_t>(width));
  }

  // The row as coefficients; whether one of them is not 0.
  bool go_to(int row) {
    const int upper = rows_.from[static_cast<size_t>(row)];
    fill(upper), fill(upper + rows_.step);
    const int a = upper % 2, b = (upper + rows_.step) % 2;
    const float weight = rows_.weight[static_cast<size_t>(row)];
    for (size_t i = 0; i < row_.size(); ++i)
      row_[i] = lines_[a][i] + weight * (lines_[b][i] - lines_[a][i]);
    return used_[a] || used_[b];
  }
  const float* row() const { return row_.data(); }

 private:
  void fill(int source) {
    const int slot = source % 2;
    if (held_[slot] == source) return;
    held_[slot] = source;
    const float* const x = grid_.row(source);
    used_[slot] = std::any_of(x, x + grid_.width, [](float value) { return value != 0.f; });
    for (size_t i = 0; i < row_.size(); ++i) {
      const float* const at = x + columns_.from[i];
      lines_[slot][i] = at[0] + columns_.weight[i] * (at[columns_.step] - at[0]);
    }
  }

  MaskView grid_;
  Axis rows_, columns_;
  std::vector<float> lines_[2], row_;
  int held_[2] = {-1, -1};
  bool used_[2] = {false, false};
};

float within(float x) {
  const float least = x > 0.f ? x : 0.f;
  return least < 1.f ? least : 1.f;
}

float brightness(const uint8_t* rgb) {
  return static_cast<float>((rgb[0] * 9798 + rgb[1] * 19235 + rgb[2] * 3735 + (1 << 14)) >> 15);
}

}  // namespace

Fit guided_fit(MaskView prior, const std::vector<Mask>& colours, float reach, float weight) {
  const int width = prior.width, height = prior.height;
  const size_t planes = colours.size();
  const std::vector<float> weights = gaussian(static_cast<int>(std::ceil(2 * reach)), reach);
  std::vector<Mask> sums(2 + 2 * planes, Mask(width, height));
  for (int row = 0; row < height; ++row) {
    for (int i = 0; i < width; ++i) {
      const float lead = prior.row(row)[i] + prior.row(row)[i] - 1.f, ahead = std::max(0.f, lead);
      const float first = ahead * ahead + kNothing;
      const float second = (ahead - lead) * (ahead - lead) + kNothing;
      sums[0].row(row)[i] = first, sums[1].row(row)[i] = second;
      for (size_t k = 0; k < planes; ++k) {
        const float value = colours[k].row(row)[i];
        sums[2 + k].row(row)[i] = value * first;
        sums[2 + planes + k].row(row)[i] = value * second;
      }
    }
  }
  for (Mask& each : sums) each = summed(each, weights);
  Fit fit{std::vector<Mask>(planes, Mask(width, height)), Mask(width, height)};
  for (int row = 0; row < height; ++row) {
    for (int i = 0; i < width; ++i) {
      const float mine = sums[0].row(row)[i], other = sums[1].row(row)[i];
      const float both = 1.f / (mine * other), first = other * both, second = mine * both;
      float length = 0, towards[3] = {}, theirs[3] = {};
      for (size_t k = 0; k < planes; ++k) {
        theirs[k] = sums[2 + planes + k].row(row)[i] * second;
        towards[k] = sums[2 + k].row(row)[i] * first - theirs[k];
        length += towards[k] * towards[k];
      }
      const float own = prior.row(row)[i], heard = 4.f * weight * (own - own * own) * length;
      // Next to nothing is nothing: the picture is not read there.
      const float said = kNothing < heard ? heard : 0.f, least = length + 1e-6f;
      const float scale = said / ((said + 1.f) * least);
      float drop = scale * least * own;
      for (size_t k = 0; k < planes; ++k) {
        const float slope = towards[k] * scale;
        drop += slope * theirs[k];
        fit.slopes[k].row(row)[i] = slope;
      }
      fit.drop.row(row)[i] = drop;
    }
  }
  return fit;
}

void guided_upsample(MaskView offset, const std::vector<Mask>& slopes, View image,
                     Rows<float, 1> y) {
  Lines base(offset, y.width, y.height);
  std::vector<Lines> each;
  for (const Mask& slope : slopes) each.emplace_back(slope.rows(), y.width, y.height);
  for (int row = 0; row < y.height; ++row) {
    base.go_to(row);
    bool used = false;
    for (Lines& lines : each) used = lines.go_to(row) || used;
    const float* const from = base.row();
    const uint8_t* rgb = image.row(row);
    float* const to = y.row(row);
    for (int i = 0; i < y.width; ++i, rgb += 3) {
      float value = from[i];
      if (used && each.size() == 1) {
        value += each[0].row()[i] * brightness(rgb);
      } else if (used) {
        value += each[0].row()[i] * static_cast<float>(rgb[0]) +
                 each[1].row()[i] * static_cast<float>(rgb[1]) +
                 each[2].row()[i] * static_cast<float>(rgb[2]);
      }
      to[i] = within(value);
    }
  }
}

}  // namespace palm_kits
