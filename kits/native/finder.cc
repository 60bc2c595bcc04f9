#include "finder.h"

#include <algorithm>

#include "segmenter.h"

namespace palm_kits {
namespace {

// These are the numbers of palmkit.kits.portrait.finder, which says what each means.
constexpr int kEvery = 4;
constexpr double kHeldS = 0.3;

}  // namespace

Finder::Finder(const palm_kits_network* finder) : network_(finder, "finder") { network_.side(); }

Mask Finder::people(View view) const {
  const int side = view.width / 2;
  std::vector<Output> outputs{{"mask", {1, side, side, 1}}};
  network_.run(view, outputs);
  return probabilities(outputs[0].data, side);
}

std::vector<std::pair<int64_t, Part>> Heads::update(Halves& picture, const std::vector<Part>& faces,
                                                    std::optional<double> time_s) {
  std::vector<std::pair<int64_t, Part>> seen;
  const int width = picture.width(), height = picture.height();
  if (time_s && skipped_ > 0) {
    --skipped_;
    return seen;
  }
  const Picture view = finder_.view(picture);
  Mask people = finder_.people(view);
  if (time_s)
    people_.update(people, view, part_of_box({0, 0, width, height}), *time_s);
  const std::vector<Head> heads = heads_without_faces(people, faces, width, height);
  if (!time_s) {
    for (const Head& head : heads)
      if (head.is_sure) seen.emplace_back(static_cast<int64_t>(seen.size()), head.part);
    return seen;
  }
  Boxes boxes;
  std::vector<char> sure;
  for (const Head& head : heads) {
    Corners<float> box{};
    for (size_t i = 0; i < 4; ++i) box[i] = static_cast<float>(head.part[i]);
    box[2] += box[0], box[3] += box[1];
    boxes.push_back(box), sure.push_back(head.is_sure);
  }
  const std::vector<int64_t> all = tracker_.update(boxes, sure, *time_s);
  std::vector<int64_t> ids;
  std::vector<float> parts, sizes;
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i] < 0) continue;
    ids.push_back(all[i]);
    for (double value : heads[i].part) parts.push_back(static_cast<float>(value));
    sizes.push_back(std::max(parts[parts.size() - 2], parts.back()));
  }
  tracker_.smooth(ids, parts.data(), 4, sizes.data());
  for (size_t i = 0; i < ids.size(); ++i) {
    Known& known = known_[ids[i]];
    std::copy_n(parts.data() + 4 * i, 4, known.part.begin());
    known.time_s = *time_s;
  }
  for (auto each = known_.begin(); each != known_.end();)
    each = *time_s - each->second.time_s <= kHeldS ? std::next(each) : known_.erase(each);
  if (known_.empty()) skipped_ = kEvery - 1;
  for (const auto& [id, known] : known_) seen.emplace_back(id, known.part);
  return seen;
}

}  // namespace palm_kits
