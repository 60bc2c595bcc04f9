#pragma once
// Places of a picture to be seen closer, on few sheets: palmkit.kits.sheets.
#include "boxes.h"
#include "palm_kits.h"
#include "steady.h"

namespace palm_kits {

// Parts of a picture that a network sees at once, and the place of each in the sheet.
struct Sheet {
  palm_kits_size size;
  std::vector<Part> parts;
  std::vector<Box> cells;
};

// Pixels of a sheet between two parts.
constexpr double kGap = 8;
// Sizes of sheets, the smallest first.
const std::vector<palm_kits_size>& sheet_sizes();

// Parts, each in a square of `side` pixels, in rows of so many squares.
Sheet rows_of(const std::vector<Part>& parts, int side, int length);
// Windows round boxes, inside the area. reach: from the middle to each side, in longer sides of the
// box; least: in pixels.
Boxes windows(const Boxes& boxes, double reach, double least, const Box& area);
// Rectangles of which each box lies in at least one. gap: what one takes on each side besides its
// own area. most: the longest side of one, which no box's side is longer than.
Boxes rectangles(const Boxes& boxes, double gap, double most);
// Sheets of these sizes that show rectangles enlarged by `scale`; those that no size holds are left
// out.
std::vector<Sheet> sheets(const Boxes& rectangles, double scale,
                          const std::vector<palm_kits_size>& sizes);

}  // namespace palm_kits
