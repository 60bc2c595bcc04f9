#include "people_search.h"

#include <algorithm>
#include <utility>

#include "parts.h"
#include "refine.h"

namespace palm_kits {
namespace {

// These are the numbers of palmkit.kits.portrait.search, which says what each means.
constexpr double kDoubt = 0.09;
constexpr double kFarDoubt = 0.3;
constexpr float kFarSure = 0.998f;
constexpr struct {
  int count;
  double share;
} kFarParts[] = {{3, 0.6}, {4, 0.4}};
constexpr int kFarSteps = 512;

double places_of_people(const Mask& mask) {
  const auto is_inside = [](float value) { return value > 0.5f; };
  return static_cast<double>(std::count_if(mask.data(), mask.data() + mask.size(), is_inside));
}

// How far a mask is from 0 and 1 for each place of people: palmkit.kits.portrait.views.doubt.
double doubt(const Mask& mask) {
  double unsure = 0;
  for (size_t i = 0; i < mask.size(); ++i)
    unsure += std::min(mask.data()[i], 1 - mask.data()[i]);
  return unsure / std::max(places_of_people(mask), static_cast<double>(mask.size()) / 300);
}

bool is_sure(const Mask& mask) {
  return *std::max_element(mask.data(), mask.data() + mask.size()) >= kFarSure &&
         doubt(mask) < kFarDoubt;
}

}  // namespace

PeopleSearch::PeopleSearch(int side, Infer infer, const palm_kits_network* finder)
    : side_(side), infer_(std::move(infer)) {
  if (finder) finder_.emplace(finder);
}

std::vector<PeopleSearch::Found> PeopleSearch::find(Halves& picture) const {
  const Box whole{0, 0, picture.width(), picture.height()};
  std::vector<Found> all;
  if (!finder_) {
    all.push_back(look(picture, whole));
    return all;
  }
  const std::optional<Box> people = people_in(finder_->people(finder_->view(picture)), whole);
  Found seen = look_apart(picture, look_closer(picture, people.value_or(whole)));
  std::vector<Box> boxes;
  if (has_less(picture, seen, kFar)) {
    for (const Box& part : far_parts(picture)) {
      const std::optional<Box> box = far_box(picture, part);
      const std::optional<Found> far = box ? sure(picture, *box) : std::nullopt;
      if (far) boxes.push_back(people_in(far->mask, far->box).value_or(far->box));
    }
  }
  if (boxes.empty()) {
    all.push_back(std::move(seen));
    return all;
  }
  if (const std::optional<Box> near = people_in(seen.mask, seen.box))
    boxes.insert(boxes.begin(), *near);
  for (const Box& box : groups(boxes))
    all.push_back(look_apart(picture, look_closer(picture, box)));
  return all;
}

PeopleSearch::Found PeopleSearch::look(Halves& picture, const Box& box) const {
  Picture view = picture.part(box, side_);
  Mask mask = infer_(view);
  return {box, std::move(view), std::move(mask)};
}

PeopleSearch::Found PeopleSearch::look_closer(Halves& picture, const Box& box) const {
  Found seen = look(picture, box);
  const std::optional<Box> nearer = closer(seen.mask, box);
  return nearer ? look(picture, *nearer) : seen;
}

PeopleSearch::Found PeopleSearch::look_apart(Halves& picture, Found seen) const {
  if (doubt(seen.mask) < kDoubt) return seen;
  const std::vector<Box> parts = apart(seen.mask, seen.box);
  for (const Box& part : parts) mix_in(seen.mask, look(picture, part).mask, part, seen.box);
  if (!parts.empty()) fade_specks(seen.mask);
  return seen;
}

bool PeopleSearch::has_less(const Halves& picture, const Found& seen, double share) const {
  const double people = places_of_people(seen.mask) / static_cast<double>(seen.mask.size());
  const Box whole{0, 0, picture.width(), picture.height()};
  return finder_ && people * area_of(seen.box) < share * area_of(whole);
}

std::vector<Box> PeopleSearch::far_parts(const Halves& picture) const {
  const int width = picture.width(), height = picture.height();
  int step = 1;
  while (std::max(width, height) > kFarSteps * step) step *= 2;
  std::vector<Box> all;
  for (const auto& [count, share] : kFarParts) {
    const std::vector<Box> parts = parts_of(width, height, count, share, step);
    all.insert(all.end(), parts.begin(), parts.end());
  }
  return all;
}

std::optional<Box> PeopleSearch::far_box(Halves& picture, const Box& part) const {
  Mask people = finder_->people(finder_->view(picture, part));
  drop_cut(people, part, picture.width(), picture.height());
  return people_in(people, part);
}

std::optional<PeopleSearch::Found> PeopleSearch::sure(Halves& picture, const Box& box) const {
  Found seen = look_closer(picture, box);
  return is_sure(seen.mask) ? std::optional<Found>(std::move(seen)) : std::nullopt;
}

}  // namespace palm_kits
