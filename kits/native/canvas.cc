#include "canvas.h"

#include <algorithm>
#include <cmath>

#include "crop.h"
#include "face_points.h"
#include "gaussian.h"
#include "things.h"

namespace palm_kits {
namespace {

// These are the numbers of palmkit.kits.tryon.canvas, which says what each means.
constexpr double kMarginCm = 2, kMemoryS = 0.4, kSoftCm = 0.15;
constexpr float kHidden = 0.4f, kSeen = 0.6f, kLeast = 1.f / 512;
constexpr double kFar = 1e6;  // pixels that no picture has

// How many times as large as the canonical face a mesh is: Horn, Closed-form solution of absolute
// orientation using unit quaternions, JOSA A 1987.
double scale_of(const palm_kits_mesh& mesh) {
  double total = 0, from[3] = {}, to[3] = {}, weights[kRigid.size()];
  for (size_t i = 0; i < kRigid.size(); ++i) {
    const auto row = static_cast<size_t>(kRigid[i]);
    weights[i] = std::max(static_cast<double>(mesh.visibility[row]), 1e-2);
    total += weights[i];
    for (size_t k = 0; k < 3; ++k)
      from[k] += weights[i] * kRigidFace[i][k], to[k] += weights[i] * mesh.points[row][k];
  }
  double m[3][3] = {}, size = 0;
  for (size_t i = 0; i < kRigid.size(); ++i) {
    const auto row = static_cast<size_t>(kRigid[i]);
    for (size_t a = 0; a < 3; ++a) {
      const double off = kRigidFace[i][a] - from[a] / total;
      size += weights[i] * off * off;
      for (size_t b = 0; b < 3; ++b)
        m[a][b] += weights[i] * off * (mesh.points[row][b] - to[b] / total);
    }
  }
  // The largest eigenvalue of the symmetric matrix of the quaternions, by Jacobi's rotations.
  double n[4][4] = {
      {m[0][0] + m[1][1] + m[2][2], m[1][2] - m[2][1], m[2][0] - m[0][2], m[0][1] - m[1][0]},
      {0, m[0][0] - m[1][1] - m[2][2], m[0][1] + m[1][0], m[2][0] + m[0][2]},
      {0, 0, m[1][1] - m[0][0] - m[2][2], m[1][2] + m[2][1]},
      {0, 0, 0, m[2][2] - m[0][0] - m[1][1]}};
  for (int i = 1; i < 4; ++i)
    for (int k = 0; k < i; ++k) n[i][k] = n[k][i];
  for (int round = 0; round < 30; ++round) {
    for (int p = 0; p < 3; ++p) {
      for (int q = p + 1; q < 4; ++q) {
        if (n[p][q] == 0) continue;
        const double theta = (n[q][q] - n[p][p]) / (2 * n[p][q]);
        const double t = (theta < 0 ? -1 : 1) / (std::abs(theta) + std::sqrt(theta * theta + 1));
        const double c = 1 / std::sqrt(t * t + 1), s = t * c;
        for (int k = 0; k < 4; ++k) {
          const double a = n[k][p], b = n[k][q];
          n[k][p] = c * a - s * b, n[k][q] = s * a + c * b;
        }
        for (int k = 0; k < 4; ++k) {
          const double a = n[p][k], b = n[q][k];
          n[p][k] = c * a - s * b, n[q][k] = s * a + c * b;
        }
      }
    }
  }
  const double most = std::max({n[0][0], n[1][1], n[2][2], n[3][3]});
  return most / std::max(size, 1e-12 * total);
}

int whole(double x) { return static_cast<int>(std::min(std::max(x, -kFar), kFar)); }

}  // namespace

void Memory::settle(const char* name, std::vector<float>& colour, std::optional<double> time_s) {
  if (!time_s) return;
  const auto before = colours.find(name);
  if (before != colours.end() && seen_s) {
    const auto share =
        static_cast<float>(1 - std::exp(-std::max(*time_s - *seen_s, 0.0) / kMemoryS));
    for (size_t i = 0; i < colour.size(); ++i)
      colour[i] = before->second[i] + share * (colour[i] - before->second[i]);
  }
  colours[name] = colour;
}

Lab Memory::settle(const char* name, const Lab& colour, std::optional<double> time_s) {
  std::vector<float> moved(colour.begin(), colour.end());
  settle(name, moved, time_s);
  return {moved[0], moved[1], moved[2]};
}

Canvas::Canvas(View picture, const palm_kits_mesh& mesh, const InFront& in_front, Memory& memory,
               std::optional<double> time_s)
    : mesh_(mesh), in_front_(in_front), memory_(memory), time_s_(time_s), per_cm_(scale_of(mesh)) {
  double low[2] = {kFar, kFar}, high[2] = {-kFar, -kFar};
  for (const float* point : mesh.points) {
    for (int axis = 0; axis < 2; ++axis) {
      low[axis] = std::min(low[axis], static_cast<double>(point[axis]));
      high[axis] = std::max(high[axis], static_cast<double>(point[axis]));
    }
  }
  const double margin = kMarginCm * per_cm_;
  box_ = {std::max(whole(std::floor(low[0] - margin)), 0),
          std::max(whole(std::floor(low[1] - margin)), 0),
          std::min(whole(std::ceil(high[0] + margin)), picture.width),
          std::min(whole(std::ceil(high[1] + margin)), picture.height)};
  if (is_empty()) return;
  before_ = picture.part(box_.left, box_.top, box_.right, box_.bottom);
  for (const float* point : mesh.points)
    points_.push_back(
        {point[0] - static_cast<float>(box_.left), point[1] - static_cast<float>(box_.top)});
  coverage_ = Mask(width(), height());
}

LabImage& Canvas::lab() {
  if (!lab_.size()) lab_ = to_lab(before_);
  return lab_;
}

Mask Canvas::uncovered() {
  Mask seen(width(), height(), 1.f);
  std::vector<bool>& hidden = memory_.hidden;
  const bool is_new = hidden.empty();
  hidden.resize(kTriangles.size());
  bool any = false;
  for (size_t i = 0; i < kTriangles.size(); ++i) {
    float sum = 0;
    for (int point : kTriangles[i]) sum += mesh_.visibility[point];
    const float visible = sum / 3;
    // Doubt changes nothing.
    const bool before = is_new ? visible < (kHidden + kSeen) / 2 : hidden[i];
    hidden[i] = visible < (before ? kSeen : kHidden);
    any |= hidden[i];
  }
  if (!any) return seen;
  // Hidden triangles, then seen ones over them: the near half of a face in profile.
  const Polygon corners = fixed(points_);
  for (int of_seen = 0; of_seen < 2; ++of_seen) {
    for (size_t i = 0; i < kTriangles.size(); ++i) {
      if (hidden[i] == (of_seen != 0)) continue;
      Polygon triangle;
      for (int point : kTriangles[i]) triangle.push_back(corners[static_cast<size_t>(point)]);
      fill_convex(seen, triangle, of_seen ? 1.f : 0.f);
    }
  }
  return soften(seen, kSoftCm * per_cm_);
}

const Mask& Canvas::free() {
  if (free_) return *free_;
  free_ = uncovered();
  const auto behind = [&](MaskView mask) {
    for (int row = 0; row < height(); ++row)
      for (int i = 0; i < width(); ++i) free_->row(row)[i] *= 1 - mask.row(row)[i];
  };
  for (const MaskView& mask : {in_front_.hands, in_front_.hair})
    if (mask.data) behind(mask.part(box_.left, box_.top, box_.right, box_.bottom));
  if (in_front_.things) {
    behind(find_things(before_, points_, mesh_.visibility, per_cm_, [&](std::vector<float>& skin) {
             memory_.settle("skin", skin, time_s_);
           }).rows());
  }
  return *free_;
}

Box Canvas::part(const Line& points, double margin_cm) const {
  const double margin = margin_cm * per_cm_ + 2;
  double low[2] = {kFar, kFar}, high[2] = {-kFar, -kFar};
  for (const Point& each : points) {
    low[0] = std::min(low[0], each.x - margin), high[0] = std::max(high[0], each.x + margin);
    low[1] = std::min(low[1], each.y - margin), high[1] = std::max(high[1], each.y + margin);
  }
  return {std::max(whole(low[0]), 0), std::max(whole(low[1]), 0),
          std::max(std::min(whole(high[0]) + 1, width()), 0),
          std::max(std::min(whole(high[1]) + 1, height()), 0)};
}

Lab Canvas::base(const char* name, LabView lab, MaskView weight) {
  if (sum_of(weight) >= static_cast<double>(kLeast))
    return memory_.settle(name, mean_of(lab, weight), time_s_);
  const auto known = memory_.colours.find(name);
  if (known == memory_.colours.end()) return {};
  return {known->second[0], known->second[1], known->second[2]};
}

void Canvas::mark(const Box& part, MaskView weight) {
  for (int row = 0; row < weight.height; ++row) {
    float* const to = coverage_.row(part.top + row) + part.left;
    for (int i = 0; i < weight.width; ++i) to[i] = std::max(to[i], weight.row(row)[i]);
  }
}

void Canvas::write(Rows<uint8_t, 3> picture) {
  if (!lab_.size()) return;
  for (int row = 0; row < height(); ++row) {
    uint8_t* const to = picture.row(box_.top + row) + 3 * box_.left;
    for (int i = 0; i < width(); ++i)
      if (coverage_.row(row)[i] > kLeast) to_rgb(lab_.row(row) + 3 * i, 1, to + 3 * i);
  }
}

}  // namespace palm_kits
