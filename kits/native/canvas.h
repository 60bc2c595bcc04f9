#pragma once
// One face's part of a picture while effects are laid on it: palmkit.kits.tryon.canvas.
#include <array>
#include <map>
#include <optional>
#include <string>

#include "lab.h"
#include "palm_kits.h"
#include "regions.h"

namespace palm_kits {

// Colours remembered from a face's earlier frames, which must not flicker.
struct Memory {
  std::optional<double> seen_s;
  std::vector<bool> hidden;
  std::map<std::string, std::vector<float>> colours;

  // Moves a colour towards from the remembered one; in pictures it stays.
  void settle(const char* name, std::vector<float>& colour, std::optional<double> time_s);
  Lab settle(const char* name, const Lab& colour, std::optional<double> time_s);
};

// Masks as large as the picture; no data: nowhere.
struct InFront {
  MaskView hair, hands;
  bool things;
};

class Canvas {
 public:
  Canvas(View picture, const palm_kits_mesh& mesh, const InFront& in_front, Memory& memory,
         std::optional<double> time_s);

  // Whether the face lies outside of the picture, or is too small to draw on.
  bool is_empty() const { return width() <= 0 || height() <= 0 || per_cm_ < 0.5; }
  int width() const { return box_.width(); }
  int height() const { return box_.height(); }
  const Line& points() const { return points_; }
  double per_cm() const { return per_cm_; }

  // In CIELAB; effects change it in turn.
  LabImage& lab();
  // Where nothing is in front of the face.
  const Mask& free();
  // Rows and columns round some points, inside the canvas.
  Box part(const Line& points, double margin_cm) const;
  // The mean colour of a region, steady over time; a hidden one keeps its colour.
  Lab base(const char* name, LabView lab, MaskView weight);
  template <size_t N>
  float seen(const std::array<int, N>& points) const {
    float sum = 0;
    for (int point : points) sum += mesh_.visibility[point];
    return sum / static_cast<float>(N);
  }
  template <size_t N>
  Line picked(const std::array<int, N>& rows) const {
    Line line;
    for (int row : rows) line.push_back(points_[static_cast<size_t>(row)]);
    return line;
  }
  void mark(const Box& part, MaskView weight);
  // Writes changed pixels; all others stay exactly as they were.
  void write(Rows<uint8_t, 3> picture);

 private:
  Mask uncovered();

  const palm_kits_mesh& mesh_;
  const InFront in_front_;
  Memory& memory_;
  const std::optional<double> time_s_;
  double per_cm_;
  Box box_;
  Line points_;
  View before_;
  LabImage lab_;
  std::optional<Mask> free_;
  Mask coverage_;
};

}  // namespace palm_kits
