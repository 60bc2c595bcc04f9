#include "following.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "parts.h"
#include "views.h"

namespace palm_kits {
namespace {

using Found = PeopleSearch::Found;

// These are the numbers of palmkit.kits.portrait.following, which says what each means.
constexpr double kSmall = 0.25, kLarge = 0.35, kHeldS = 0.3;
constexpr double kRoom = 0.25, kLeastRoom = 0.08, kTimes = 2.5, kCut = 0.02;
constexpr int kEvery = 3, kGlances = 2, kLater = 1, kRest = 4;

// The part of a picture round the people found in one; room: in their width and height.
std::optional<Box> box_round(const Found& found, const Halves& picture, double room = kRoom) {
  return box_round(found.mask, found.box, picture.width(), picture.height(), room);
}

// Whether there is less room than this round people in a part of a picture.
bool has_left(const Found& found, const Halves& picture, double room) {
  const std::optional<Box> box = box_round(found, picture, room);
  return box && !is_within(*box, found.box);
}

// Leaves what is in a box, which lies in what was seen, out of its mask.
void drop(Mask& mask, const Box& seen, const Box& box) {
  const auto place = [](int at, int places, int full) {
    return static_cast<double>(int64_t{at} * places) / full;
  };
  const int wide = seen.width(), high = seen.height();
  const int left = static_cast<int>(std::floor(place(box.left - seen.left, mask.width(), wide)));
  const int right = static_cast<int>(std::ceil(place(box.right - seen.left, mask.width(), wide)));
  const int top = static_cast<int>(std::floor(place(box.top - seen.top, mask.height(), high)));
  const int bottom = static_cast<int>(std::ceil(place(box.bottom - seen.top, mask.height(), high)));
  for (int row = top; row < bottom; ++row)
    std::fill(mask.row(row) + left, mask.row(row) + right, 0.0f);
}

}  // namespace

bool Following::is_due(const Box& area) {
  if (area_ && !(*area_ == area)) {
    people_.clear();
    rest_ = kRest;
  }
  area_ = area;
  return people_.empty() || frames_ >= kEvery - 1;
}

std::vector<Found> Following::begin(Halves& picture, const Found& seen, double time_s) {
  frames_ = -1;
  if (rest_) {
    --rest_;
    return {};
  }
  if (!search_.has_less(picture, seen, people_.empty() ? kSmall : kLarge)) {
    people_.clear();
    glanced_ = 0;
    return {};
  }
  const bool is_far = search_.has_less(picture, seen, kFar);
  std::vector<Box> found;
  if (is_far) found = others(picture);
  Found left{seen.box, {}, seen.mask};
  for (const Person& person : people_) drop(left.mask, left.box, person.box);
  if (is_far || !search_.has_less(picture, left, kFar)) {
    const std::optional<Box> near = people_in(left.mask, left.box);
    const std::optional<Box> box = near ? around(picture, *near) : std::nullopt;
    if (box) {
      found.push_back(*box);
    } else if (!is_far) {
      // A look at all of the frame sees what closer ones do not.
      people_.clear();
      rest_ = kRest;
      return {};
    }
  }
  for (const Box& box : found) people_.push_back({box, time_s, {}});
  return follow(picture, time_s);
}

std::vector<Found> Following::follow(Halves& picture, double time_s) {
  ++frames_;
  // They may come together, and then are looked at as one.
  std::vector<Box> boxes;
  for (const Person& person : people_) boxes.push_back(person.box);
  std::vector<Person> people;
  for (const Box& box : groups(boxes)) {
    const auto known = std::find_if(people_.begin(), people_.end(),
                                    [&](const Person& each) { return each.box == box; });
    people.push_back(known == people_.end() ? Person{box, time_s, {}} : std::move(*known));
  }
  people_ = std::move(people);
  std::vector<Found> looks;
  for (Person& person : people_) looks.push_back(look(picture, person, time_s));
  people_.erase(std::remove_if(people_.begin(), people_.end(),
                               [=](const Person& each) { return time_s - each.seen_s > kHeldS; }),
                people_.end());
  return looks;
}

std::vector<Box> Following::others(Halves& picture) {
  std::vector<Box> found;
  const std::vector<Box> parts = search_.far_parts(picture);
  const int glances = glanced_ < parts.size() ? kGlances : kLater;
  for (int i = 0; i < glances; ++i) {
    const std::optional<Box> box = search_.far_box(picture, parts[glanced_++ % parts.size()]);
    if (!box || std::any_of(people_.begin(), people_.end(),
                            [&](const Person& each) { return overlap(*box, each.box); }))
      continue;
    if (const std::optional<Box> sure = around(picture, *box)) found.push_back(*sure);
  }
  return found;
}

std::optional<Box> Following::around(Halves& picture, const Box& box) const {
  const std::optional<Found> sure = search_.sure(picture, box);
  return sure ? box_round(*sure, picture) : std::nullopt;
}

Found Following::look(Halves& picture, Person& person, double time_s) const {
  Found found = search_.look(picture, person.box);
  if (has_left(found, picture, kCut)) {
    person.box = box_round(found, picture).value_or(person.box);
    found = search_.look(picture, person.box);
  }
  if (const std::optional<Box> round = box_round(found, picture)) {
    person.seen_s = time_s;
    if (has_left(found, picture, kLeastRoom) || area_of(found.box) > kTimes * area_of(*round))
      person.box = *round;
  }
  if (is_smooth_) person.steady.update(found.mask, found.view, part_of_box(found.box), time_s);
  return found;
}

}  // namespace palm_kits
