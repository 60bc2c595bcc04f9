// The try-on kit, as palmkit.kits.tryon.kit.
#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

#include "calls.h"
#include "doubt.h"
#include "gaussian.h"
#include "hair_dye.h"
#include "hands_in_front.h"
#include "heads.h"
#include "lipstick.h"
#include "outline.h"
#include "refine.h"
#include "segmenter.h"

namespace palm_kits {
namespace {

// These are the numbers of palmkit.kits.tryon.kit, which says what each means.
constexpr float kBoxRatio = 1.06f;
constexpr double kEdge = 0.7, kLostS = 1;
// So many things are looked for in a picture, and in a frame.
constexpr size_t kMostInPicture = 1024, kMostInFrame = 64;

const palm_kits_options kMeshes = PALM_KITS_MESHES, kHands = PALM_KITS_HANDS,
                        kMasks = PALM_KITS_MASKS;

// What a call that this kit made returned.
void passed(palm_kits_status status) {
  if (status) bad(status, "%s", std::string(palm_kits_error()).c_str());
}

struct Free {
  void operator()(palm_kits_meshes* kit) const { palm_kits_meshes_free(kit); }
  void operator()(palm_kits_hands* kit) const { palm_kits_hands_free(kit); }
};

Worn worn_of(const palm_kits_effect& effect, int32_t most, const char* what) {
  between(effect.opacity, 0, 1, what);
  if (effect.finish < 0 || effect.finish > most)
    refuse("%s: expected a finish of 0 to %d, got %d", what, most, effect.finish);
  const uint8_t rgb[3] = {effect.red, effect.green, effect.blue};
  Worn worn{{}, static_cast<float>(effect.opacity), static_cast<Finish>(effect.finish)};
  to_lab(rgb, 1, worn.colour.data());
  return worn;
}

struct Look {
  explicit Look(const palm_kits_look* given_)
      : own(*given(given_, "look")),
        lipstick(worn_of(own.lipstick, PALM_KITS_SHIMMER, "lipstick")),
        hair(worn_of(own.hair, PALM_KITS_GLOSS, "hair")) {
    if (own.size != sizeof own)
      refuse("look: expected a size of %zu, got %zu: begin with PALM_KITS_LOOK", sizeof own,
             own.size);
    if (own.face < PALM_KITS_MIDDLE)
      refuse("face: expected PALM_KITS_MIDDLE or more, got %d", own.face);
    for (int32_t each : {own.behind_hair, own.behind_hands, own.behind_things})
      if (each != 0 && each != 1)
        refuse("look: expected 0 or 1 for what is in front, got %d", each);
  }

  const palm_kits_look own;
  const Worn lipstick, hair;
};

// The boxes that the hair network's view is measured by.
Part head_of(const palm_kits_mesh& mesh) {
  const float* const box = mesh.face.box;
  Part head;
  for (size_t axis = 0; axis < 2; ++axis) {
    head[axis] = box[axis] - box[axis + 2] * static_cast<float>((1.06 - 1) / 2);
    head[axis + 2] = box[axis + 2] * kBoxRatio;
  }
  return head;
}

class TryOnKit {
 public:
  TryOnKit(const palm_kits_try_on_networks& networks, const palm_kits_options* given_)
      : options_(given_), most_(options_.is_video ? kMostInFrame : kMostInPicture) {
    palm_kits_options own = *given_;
    // In a picture all are found, as a face that wears nothing keeps its hair.
    if (!options_.is_video) own.max_count = 0;
    palm_kits_meshes* meshes;
    passed(palm_kits_meshes_create(networks.detector, networks.mesh, &own, &meshes));
    meshes_.reset(meshes);
    if (networks.hand_detector || networks.hand_landmarks) {
      palm_kits_hands* hands;
      own = kHands, own.is_video = given_->is_video, own.is_smooth = given_->is_smooth;
      passed(palm_kits_hands_create(networks.hand_detector, networks.hand_landmarks, &own, &hands));
      hands_.reset(hands);
    }
    if (networks.hair) {
      own = kMasks, own.is_video = given_->is_video, own.is_smooth = given_->is_smooth;
      hair_.emplace(Options(&own), networks.hair);
    }
  }

  // Lays the look on `picture`, a copy of what the image shows; returns the faces that wear it.
  Meshes run(const palm_kits_image* image, View view, const palm_kits_part* part,
             const palm_kits_frame* frame, const Look& look, Rows<uint8_t, 3> picture) {
    if (look.hair.opacity > 0 && !hair_)
      refuse("look: expected no hair dye, the kit has no network of hair");
    motion_of(frame, options_);
    const Box area = clipped(part, view);
    std::optional<double> time_s;
    palm_kits_frame now{0, frame ? frame->motion : nullptr};
    const double timestamp_ms = timestamp_of(frame);
    if (options_.is_video) time_s = clock_.tick(timestamp_ms), now.timestamp_ms = *time_s * 1e3;
    const palm_kits_frame* const at = time_s ? &now : nullptr;
    Meshes all(most_);
    palm_kits_list list{0, all.size()};
    passed(palm_kits_meshes_run(meshes_.get(), image, part, at, all.data(), &list));
    all.resize(list.count);
    const bool doubts = options_.min_score == kMeshes.min_score;
    const Indices rows =
        wearers_.among(all, view, look.own.face, options_.max_count, options_.is_video, doubts);
    const bool paints = look.lipstick.opacity > 0, dyes = look.hair.opacity > 0;
    if (!rows.empty() && (paints || dyes)) {
      std::optional<Mask> hair, hands;
      if (hair_ && (dyes || look.own.behind_hair)) {
        hair.emplace(view.width, view.height);
        std::vector<Hair::Face> faces;
        for (size_t row : rows) faces.push_back({head_of(all[row]), all[row].face.id});
        // Single strands count in pictures; frames have no time for them, nor to ask twice.
        const Hair::Way way{dyes || !time_s, dyes && !time_s};
        hair_->around(view, faces, area, time_s, way, hair->rows());
      }
      if (hands_ && look.own.behind_hands) hands = hands_of(image, view, all, rows, area, at);
      if (paints) paint(picture, all, rows, look, hair, hands, time_s);
      if (dyes) dye(view, picture, all, rows, look, *hair, hands, area, time_s);
    }
    forget_the_gone(time_s);
    Meshes wearing;
    for (size_t row : rows) wearing.push_back(all[row]);
    return wearing;
  }

 private:
  std::optional<Mask> hands_of(const palm_kits_image* image, View view, const Meshes& all,
                               const Indices& rows, const Box& area, const palm_kits_frame* at) {
    const palm_kits_part round = part_for_hands(all, rows, area);
    if (round.width < 1 || round.height < 1) return std::nullopt;
    std::vector<palm_kits_hand> hands(most_);
    palm_kits_list list{0, hands.size()};
    passed(palm_kits_hands_run(hands_.get(), image, &round, at, hands.data(), &list));
    hands.resize(list.count);
    return hands_in_front(view, hands, all, rows);
  }

  void paint(Rows<uint8_t, 3> picture, const Meshes& all, Indices rows, const Look& look,
             const std::optional<Mask>& hair, const std::optional<Mask>& hands,
             std::optional<double> time_s) {
    // Those further away first.
    const auto size = [&](size_t row) { return all[row].face.box[2] * all[row].face.box[3]; };
    std::stable_sort(rows.begin(), rows.end(),
                     [&](size_t a, size_t b) { return size(a) < size(b); });
    InFront front{{}, {}, look.own.behind_things != 0};
    if (hair) front.hair = hair->rows();
    if (hands) front.hands = hands->rows();
    for (size_t row : rows) {
      Memory& memory = memory_of(faces_, all[row]);
      Canvas canvas(picture, all[row], front, memory, time_s);
      if (!canvas.is_empty()) {
        lay_lipstick(look.lipstick, canvas);
        canvas.write(picture);
      }
      memory.seen_s = time_s;
    }
  }

  void dye(View view, Rows<uint8_t, 3> picture, const Meshes& all, const Indices& rows,
           const Look& look, const Mask& hair, const std::optional<Mask>& hands, const Box& area,
           std::optional<double> time_s) {
    for (HeadHair& own : hair_of_heads(hair.rows(), all, rows)) {
      const palm_kits_mesh& mesh = all[own.row];
      const Box& part = own.part;
      // A frame has no time for more than the mask and its outline.
      if (time_s) to_coverage(own.mask);
      else work_out(view, mesh, own, area);
      own.mask = along_outline(palm_kits::part_of(view, part), own.mask, own.per_cm);
      if (hands) {
        for (int y = 0; y < own.mask.height(); ++y)
          for (int x = 0; x < own.mask.width(); ++x)
            own.mask.row(y)[x] *= 1 - hands->row(part.top + y)[part.left + x];
      }
      Memory& memory = memory_of(heads_, mesh);
      dye_hair(look.hair, picture.part(part.left, part.top, part.right, part.bottom),
               own.mask.rows(), own.per_cm, memory, time_s);
      memory.seen_s = time_s;
    }
  }

  // Makes how much of each pixel is a head's hair of its mask.
  void work_out(View view, const palm_kits_mesh& mesh, HeadHair& own, const Box& area) const {
    const Box& part = own.part;
    Line points, here;
    float low[2] = {mesh.points[0][0], mesh.points[0][1]}, high[2] = {low[0], low[1]};
    for (const float* point : mesh.points) {
      points.push_back({point[0], point[1]});
      for (size_t axis = 0; axis < 2; ++axis) {
        low[axis] = std::min(low[axis], point[axis]);
        high[axis] = std::max(high[axis], point[axis]);
      }
    }
    const Point back{static_cast<float>(-part.left), static_cast<float>(-part.top)};
    const Mask otherwise = hair_->otherwise(view, head_of(mesh), area, part);
    drop_hats(own.mask, otherwise, moved(points, back));
    drop_skin(view, part, own.mask, points, mesh.visibility);
    const View crop = palm_kits::part_of(view, part);
    drop_doubtful(crop, own.mask, std::max(high[0] - low[0], high[1] - low[1]));
    Mask share(crop.width, crop.height);
    opacity(crop, own.mask.rows(), share.rows());
    own.mask = soften(share, kEdge);
  }

  // What is remembered of a face, or of its hair; nothing of pictures.
  Memory& memory_of(std::map<int64_t, Memory>& known, const palm_kits_mesh& mesh) {
    if (!options_.is_video) return passing_ = Memory();
    return known[mesh.face.id];
  }

  void forget_the_gone(std::optional<double> time_s) {
    if (!time_s) return;
    for (std::map<int64_t, Memory>* known : {&faces_, &heads_}) {
      for (auto each = known->begin(); each != known->end();) {
        const std::optional<double> seen_s = each->second.seen_s;
        if (seen_s && *time_s - *seen_s <= kLostS) ++each;
        else each = known->erase(each);
      }
    }
  }

  const Options options_;
  const size_t most_;
  std::unique_ptr<palm_kits_meshes, Free> meshes_;
  std::unique_ptr<palm_kits_hands, Free> hands_;
  std::optional<Hair> hair_;
  Clock clock_;
  Wearers wearers_;
  std::map<int64_t, Memory> faces_, heads_;
  Memory passing_;
};

// Where each of red, green, blue and alpha is in a pixel; -1: nowhere.
struct Layout {
  int bytes, red, green, blue, alpha;
};

Layout layout_of(const palm_kits_canvas& canvas, View view) {
  given(canvas.pixels, "after");
  if (canvas.width != view.width || canvas.height != view.height)
    refuse("after: expected %dx%d pixels, got %dx%d", view.width, view.height, canvas.width,
           canvas.height);
  switch (canvas.format) {
    case PALM_KITS_RGB: return {3, 0, 1, 2, -1};
    case PALM_KITS_BGR: return {3, 2, 1, 0, -1};
    case PALM_KITS_RGBA: return {4, 0, 1, 2, 3};
    case PALM_KITS_BGRA: return {4, 2, 1, 0, 3};
    default: refuse("after: expected RGB, BGR, RGBA or BGRA, got format %d", canvas.format);
  }
}

}  // namespace
}  // namespace palm_kits

using namespace palm_kits;

struct palm_kits_try_on {
  std::unique_ptr<TryOnKit> kit;
};

palm_kits_status palm_kits_try_on_create(const palm_kits_try_on_networks* networks,
                                         const palm_kits_options* options, palm_kits_try_on** kit) {
  return making(kit,
                [&] { return std::make_unique<TryOnKit>(*given(networks, "networks"), options); });
}

void palm_kits_try_on_free(palm_kits_try_on* kit) { delete kit; }

palm_kits_status palm_kits_try_on_run(palm_kits_try_on* kit, const palm_kits_image* image,
                                      const palm_kits_part* part, const palm_kits_frame* frame,
                                      const palm_kits_look* look, const palm_kits_canvas* after,
                                      palm_kits_mesh* meshes, palm_kits_list* list) {
  return guarded([&] {
    TryOnKit& own = *given(kit, "kit")->kit;
    if (list) list->count = 0, given(meshes, list->room, "meshes");
    const Pixels pixels(image);
    const View view = pixels.view();
    const palm_kits_canvas& to = *given(after, "after");
    const Layout layout = layout_of(to, view);
    const size_t line = static_cast<size_t>(layout.bytes) * static_cast<size_t>(to.width);
    const size_t stride = to.stride ? to.stride : line;
    if (stride < line) refuse("after: expected a stride of %zu or more, got %zu", line, stride);
    Picture picture = copied<uint8_t, 3>(view);
    const Meshes found = own.run(image, view, part, frame, Look(look), picture.rows());
    for (int y = 0; y < to.height; ++y) {
      const uint8_t* from = picture.row(y);
      uint8_t* at = to.pixels + static_cast<size_t>(y) * stride;
      for (int x = 0; x < to.width; ++x, from += 3, at += layout.bytes) {
        at[layout.red] = from[0], at[layout.green] = from[1], at[layout.blue] = from[2];
        if (layout.alpha >= 0) at[layout.alpha] = 255;
      }
    }
    if (!list) return;
    put_count(*list, found.size(), "meshes");
    std::copy(found.begin(), found.end(), meshes);
  });
}
