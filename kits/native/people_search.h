#pragma once
// The search for the people of a picture: palmkit.kits.portrait.search, by one network.
#include <functional>
#include <optional>
#include <vector>

#include "finder.h"
#include "views.h"

namespace palm_kits {

// Where less of a picture than this is people, others may be too far away for a look at the whole.
constexpr double kFar = 0.01;

class PeopleSearch {
 public:
  // What the network says of a view of this many pixels a side, without specks.
  using Infer = std::function<Mask(View)>;
  // finder: without one the whole picture is looked at, once.
  PeopleSearch(int side, Infer infer, const palm_kits_network* finder);

  // What the network says of a part of a picture, and the view that it had.
  struct Found {
    Box box;
    Picture view;
    Mask mask;
  };
  // The parts of a picture with people, which do not overlap; one at least.
  std::vector<Found> find(Halves& picture) const;

  // Whether less of a picture than this share is people; false without a finder.
  bool has_less(const Halves& picture, const Found& seen, double share) const;
  // The parts of a picture to glance at for people far away.
  std::vector<Box> far_parts(const Halves& picture) const;
  // Where a glance at a part sees people who do not reach out of it.
  std::optional<Box> far_box(Halves& picture, const Box& part) const;
  // What the network sees in a box, where it is sure of somebody.
  std::optional<Found> sure(Halves& picture, const Box& box) const;
  // What it says of all of a box, in one look.
  Found look(Halves& picture, const Box& box) const;

 private:
  // Where people are in little of the box, a closer look counts.
  Found look_closer(Halves& picture, const Box& box) const;
  // Where that leaves a doubt, looks at people apart from others have half of the word.
  Found look_apart(Halves& picture, Found seen) const;
  const int side_;
  const Infer infer_;
  std::optional<Finder> finder_;
};

}  // namespace palm_kits
