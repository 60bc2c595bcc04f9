#include "kernels/guided/guided.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

namespace palm {
namespace {

constexpr size_t kBlock = 64;  // pixels that are looked at together

// Where `count` places lie among `length`.
struct Axis {
  Axis(size_t length, size_t count) : from(count), weight(count), step(length > 1) {
    const double scale = static_cast<double>(length) / static_cast<double>(count);
    for (size_t i = 0; i < count; ++i) {
      const double last = static_cast<double>(length - 1);
      const double at = (static_cast<double>(i) + 0.5) * scale - 0.5;
      const double inside = std::min(std::max(at, 0.0), last);
      const double low = std::min(std::floor(inside), last - static_cast<double>(step));
      from[i] = static_cast<int32_t>(low);
      weight[i] = static_cast<float>(inside - low);
    }
  }

  size_t source(size_t i) const { return static_cast<size_t>(from[i]); }

  std::vector<int32_t> from;
  std::vector<float> weight;
  size_t step;
};

// A grid's lines as wide as the picture; the two that a row of it lies between are kept.
class Lines {
 public:
  Lines(const Rows<const float>& grid, const Axis& rows, const Axis& columns, bool sparse)
      : grid_(grid), rows_(rows), columns_(columns), width_(columns.from.size()),
        blocks_((width_ + kBlock - 1) / kBlock) {
    for (Line& line : lines_) line.values.resize(width_), line.used.assign(blocks_, !sparse);
    if (!sparse) return;
    for (size_t b = 0; b < blocks_; ++b) {
      const size_t last = std::min((b + 1) * kBlock, width_) - 1;
      ranges_.push_back({columns.source(b * kBlock), columns.source(last) + columns.step + 1});
    }
  }

  // Makes the two lines of a row ready.
  void go_to(size_t row, void (*expand)(const float*, const Places&, float*)) {
    const size_t upper = rows_.source(row);
    for (size_t source : {upper, upper + rows_.step}) {
      Line& line = lines_[source % 2];
      if (line.source == source) continue;
      line.source = source;
      fill(line, grid_.row(source), expand);
    }
    upper_ = &lines_[upper % 2], lower_ = &lines_[(upper + rows_.step) % 2];
    weight_ = rows_.weight[row];
  }

  bool is_used(size_t block) const { return upper_->used[block] || lower_->used[block]; }

  Between at(size_t column) const {
    return {upper_->values.data() + column, lower_->values.data() + column, weight_};
  }

 private:
  struct Line {
    std::vector<float> values;
    std::vector<char> used;  // by block: not 0 everywhere
    size_t source = SIZE_MAX;
  };

  void fill(Line& line, const float* x, void (*expand)(const float*, const Places&, float*)) {
    const auto part = [&](size_t begin, size_t n) {
      expand(x, {n, grid_.width, columns_.from.data() + begin, columns_.step,
                 columns_.weight.data() + begin},
             line.values.data() + begin);
    };
    if (ranges_.empty()) return part(0, width_);
    for (size_t b = 0; b < blocks_; ++b) {
      const auto is_zero = [](float value) { return value == 0.f; };
      const size_t begin = b * kBlock, n = std::min(kBlock, width_ - begin);
      line.used[b] = !std::all_of(x + ranges_[b].begin, x + ranges_[b].end, is_zero);
      if (line.used[b])
        part(begin, n);
      else
        std::memset(line.values.data() + begin, 0, n * sizeof(float));
    }
  }

  struct Range {
    size_t begin, end;
  };

  const Rows<const float> grid_;
  const Axis &rows_, &columns_;
  size_t width_, blocks_;
  std::vector<Range> ranges_;  // what of the grid's line each block is made of
  Line lines_[2];
  const Line *upper_ = nullptr, *lower_ = nullptr;
  float weight_ = 0;
};

// Place i of `length` of them behind `reach` others, which are mirrored at the first and the last.
size_t mirrored(size_t i, size_t reach, size_t length) {
  ptrdiff_t at = static_cast<ptrdiff_t>(i) - static_cast<ptrdiff_t>(reach);
  const ptrdiff_t last = static_cast<ptrdiff_t>(length) - 1;
  while (last && (at < 0 || at > last)) at = at < 0 ? -at : 2 * last - at;
  return last ? static_cast<size_t>(at) : 0;
}

std::vector<float> gaussian(size_t reach, float sigma) {
  std::vector<float> weights(2 * reach + 1);
  double total = 0;
  const auto weight = [&](size_t i) {
    const double x = (static_cast<double>(i) - static_cast<double>(reach)) / sigma;
    return std::exp(-0.5 * x * x);
  };
  for (size_t i = 0; i < weights.size(); ++i) total += weight(i);
  for (size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<float>(weight(i) / total);
  return weights;
}

}  // namespace

GuidedFns find_guided(uint32_t isa) {
#define PALM_KERNEL(need, isa_)                                                 \
  if ((isa & (need)) == (need))                                                 \
    return {&guided_expand_f32_##isa_, &guided_row_f32_##isa_, &guided_weigh_f32_##isa_, \
            &guided_sum_f32_##isa_, &guided_solve_f32_##isa_};
#include "kernels/guided/kernels.inc"
#undef PALM_KERNEL
  PALM_EVERY_SET_WAS_TRIED;
}

void guided_upsample(uint32_t isa, const Guided& g) {
  const GuidedFns fns = find_guided(isa);
  const size_t height = g.y.height, width = g.y.width;
  const Axis rows(g.offset.height, height), columns(g.offset.width, width);
  const Axis slope_rows(g.slopes[0].height, height), slope_columns(g.slopes[0].width, width);
  Lines offset(g.offset, rows, columns, false);
  std::vector<Lines> slopes;
  for (size_t k = 0; k < g.planes; ++k)
    slopes.emplace_back(g.slopes[k], slope_rows, slope_columns, true);
  const auto is_used = [&](size_t block) {
    const auto used = [&](const Lines& each) { return each.is_used(block); };
    return std::any_of(slopes.begin(), slopes.end(), used);
  };
  for (size_t y = 0; y < height; ++y) {
    offset.go_to(y, fns.expand);
    for (Lines& each : slopes) each.go_to(y, fns.expand);
    for (size_t x = 0, end = 0; x < width; x = end) {
      const bool used = is_used(x / kBlock);
      while (end < width && is_used(end / kBlock) == used) end += kBlock;
      end = std::min(end, width);
      GuidedRow row{};
      row.n = end - x;
      row.offset = offset.at(x);
      row.planes = used ? g.planes : 0;
      for (size_t k = 0; k < row.planes; ++k) row.slopes[k] = slopes[k].at(x);
      row.pixels = g.image.row(y) + 3 * x;
      row.y = g.y.row(y) + x;
      fns.row(row);
    }
  }
}

void guided_fit(uint32_t isa, const GuidedFit& f) {
  constexpr size_t kVector = 16;
  const GuidedFns fns = find_guided(isa);
  const size_t height = f.prior.height, width = f.prior.width, maps = 2 + 2 * f.planes;
  const size_t reach = static_cast<size_t>(std::ceil(2 * f.reach));
  const size_t line = (width + kVector - 1) / kVector * kVector, map_line = maps * line;
  const std::vector<float> weights = gaussian(reach, f.reach);
  const size_t taps = weights.size();
  // Rows that are summed along already; those that a row of y needs are kept.
  std::vector<float> kept(taps * map_line), sums(map_line), padded(line + 2 * reach);
  std::vector<float> given((1 + f.planes) * line), y((1 + f.planes) * line);
  std::vector<const float*> from(taps);
  const FitRow row{line, f.planes, f.weight, given.data(), sums.data(), y.data()};
  const auto load = [&](size_t at) {
    std::memcpy(given.data(), f.prior.row(at), width * sizeof(float));
    for (size_t k = 0; k < f.planes; ++k)
      std::memcpy(&given[(1 + k) * line], f.colours[k].row(at), width * sizeof(float));
  };
  for (size_t at = 0, next = 0; at < height; ++at) {
    for (; next <= at + reach && next < height; ++next) {
      load(next);
      fns.weigh(row);
      for (size_t map = 0; map < maps; ++map) {
        const float* const own = &sums[map * line];
        std::memcpy(&padded[reach], own, width * sizeof(float));
        for (size_t i = 0; i < reach; ++i) {
          padded[i] = own[mirrored(i, reach, width)];
          padded[reach + width + i] = own[mirrored(reach + width + i, reach, width)];
        }
        for (size_t t = 0; t < taps; ++t) from[t] = padded.data() + t;
        fns.sum(line, taps, from.data(), weights.data(), &kept[next % taps * map_line + map * line]);
      }
    }
    for (size_t t = 0; t < taps; ++t)
      from[t] = &kept[mirrored(at + t, reach, height) % taps * map_line];
    fns.sum(map_line, taps, from.data(), weights.data(), sums.data());
    load(at);
    fns.solve(row);
    for (size_t k = 0; k <= f.planes; ++k)
      std::memcpy(f.y[k].row(at), &y[k * line], width * sizeof(float));
  }
}

}  // namespace palm
