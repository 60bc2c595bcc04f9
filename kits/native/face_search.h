#pragma once
// The search for the faces of a picture, as palmkit.kits.face.search: in few pixels first, then
// closer at what may be a small face.
#include <limits>

#include "detector.h"
#include "options.h"

namespace palm_kits {

class FaceSearch {
 public:
  FaceSearch(const Options& options, const palm_kits_network* network);

  const Detector& detector() const { return detector_; }
  // The longest side of the input, at most.
  int size() const { return size_; }
  // One row a face, best first. enough: so many are wanted, 0 for any number. smallest: the longer
  // side of the smallest face that is known to be there.
  Candidates find(View image, const Box& area, double min_score, size_t enough,
                  double smallest = std::numeric_limits<double>::infinity()) const;

 private:
  Candidates closer(View image, const Box& area, double min_score, int size, size_t enough) const;
  Candidates crowd(View image, const Box& area, double min_score, const std::vector<Part>& parts,
                   const Candidates& seen, double scale) const;
  Candidates ever_closer(View image, const Box& area, double min_score, Candidates seen,
                         double scale) const;

  const Detector detector_;
  const int size_, tile_;
  const bool is_quick_, is_video_, looks_closer_;
};

}  // namespace palm_kits
