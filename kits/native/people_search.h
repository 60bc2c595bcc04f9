#pragma once
// The search for the people of a picture: palmkit.kits.portrait.search, by one network.
#include <functional>
#include <optional>
#include <vector>

#include "finder.h"
#include "views.h"

namespace palm_kits {

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

 private:
  Found look(Halves& picture, const Box& box) const;
  // Where people are in little of the box, a closer look counts.
  Found look_closer(Halves& picture, const Box& box) const;
  std::vector<Box> far_away(Halves& picture) const;

  const int side_;
  const Infer infer_;
  std::optional<Finder> finder_;
};

}  // namespace palm_kits
