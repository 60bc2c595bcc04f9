#pragma once
// Small people in a video, who are followed: palmkit.kits.portrait.following.
#include <optional>
#include <vector>

#include "people_search.h"
#include "steady.h"

namespace palm_kits {

class Following {
 public:
  // search: outlives it.
  Following(const PeopleSearch& search, bool is_smooth) : search_(search), is_smooth_(is_smooth) {}

  // Whether `begin` is to be called with this frame, or else `follow`. area: the part of the frame
  // that these get.
  bool is_due(const Box& area);
  // The parts of a frame with small people, which may overlap; none where nobody is, or somebody
  // large. seen: what a look at all of the frame says.
  std::vector<PeopleSearch::Found> begin(Halves& picture, const PeopleSearch::Found& seen,
                                         double time_s);
  // The parts of a frame with the people who are followed.
  std::vector<PeopleSearch::Found> follow(Halves& picture, double time_s);

 private:
  // Somebody, or several close together: what is looked at, and when they were seen last.
  struct Person {
    Box box;
    double seen_s;
    Steady steady;
  };
  std::vector<Box> others(Halves& picture);
  std::optional<Box> around(Halves& picture, const Box& box) const;
  PeopleSearch::Found look(Halves& picture, Person& person, double time_s) const;

  const PeopleSearch& search_;
  const bool is_smooth_;
  std::vector<Person> people_;
  std::optional<Box> area_;
  // How many parts have been glanced at, and frames that follow the last that was due.
  size_t glanced_ = 0;
  int frames_ = 0;
  int rest_ = 0;  // frames to be looked at as a whole
};

}  // namespace palm_kits
