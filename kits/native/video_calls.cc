// The calls of palm_kits.h that track and steady.
#include <algorithm>

#include "calls.h"
#include "filters.h"
#include "steady.h"
#include "tracker.h"

using namespace palm_kits;

struct palm_kits_tracker {
  Tracker tracker;
};
struct palm_kits_filter {
  OneEuro filter;
};
struct palm_kits_mesh_filter {
  MeshFilter filter;
  double last_s = -HUGE_VAL;
};
struct palm_kits_mask_filter {
  Steady steady;
};

namespace {

constexpr size_t kMost = 65536;  // things in a frame, or values of one
constexpr double kMostS = 1e12;

size_t few(size_t count, const char* what) {
  if (count > kMost) refuse("%s: expected %zu or fewer, got %zu", what, kMost, count);
  return count;
}

void check_rise(bool rises, double time_s) {
  if (!rises) refuse("time_s: expected one after the last, got %g", time_s);
}

}  // namespace

palm_kits_status palm_kits_tracker_create(double max_lost_s, palm_kits_tracker** tracker) {
  return making(tracker, [&] { return Tracker(between(max_lost_s, 0, 1e6, "max_lost_s")); });
}

void palm_kits_tracker_free(palm_kits_tracker* tracker) { delete tracker; }

palm_kits_status palm_kits_tracker_look(palm_kits_tracker* tracker,
                                        const palm_kits_motion* since_first, int32_t width,
                                        int32_t height) {
  return guarded([&] {
    given(tracker, "tracker");
    if (width < 1 || height < 1) refuse("frame: expected sides above 0, got %dx%d", width, height);
    tracker->tracker.look_from(motion_of(since_first), width, height);
  });
}

palm_kits_status palm_kits_tracker_predict(palm_kits_tracker* tracker, double time_s, float* boxes,
                                           palm_kits_list* list) {
  return guarded([&] {
    Tracker& own = given(tracker, "tracker")->tracker;
    given(list, "list")->count = 0, given(boxes, list->room, "boxes");
    between(time_s, -kMostS, kMostS, "time_s"), check_rise(time_s > own.time_s(), time_s);
    const Boxes found = own.predict(time_s);
    put_count(*list, found.size(), "boxes");
    for (size_t i = 0; i < found.size(); ++i) std::copy_n(found[i].begin(), 4, boxes + 4 * i);
  });
}

palm_kits_status palm_kits_tracker_update(palm_kits_tracker* tracker, const float* boxes,
                                          const uint8_t* is_sure, size_t count, double time_s,
                                          int64_t* ids) {
  return guarded([&] {
    Tracker& own = given(tracker, "tracker")->tracker;
    between(time_s, -kMostS, kMostS, "time_s"), check_rise(time_s > own.time_s(), time_s);
    few(count, "count"), given(boxes, count, "boxes"), given(is_sure, count, "is_sure");
    given(ids, count, "ids");
    Boxes all(count);
    for (size_t i = 0; i < 4 * count; ++i)
      all[i / 4][i % 4] = static_cast<float>(between(boxes[i], -1e9, 1e9, "boxes"));
    std::vector<char> sure(count);
    for (size_t i = 0; i < count; ++i) sure[i] = is_sure[i] != 0;
    const std::vector<int64_t> found = own.update(all, sure, time_s);
    std::copy(found.begin(), found.end(), ids);
  });
}

palm_kits_status palm_kits_tracker_smooth(palm_kits_tracker* tracker, const int64_t* ids,
                                          size_t count, const float* sizes, float* values,
                                          size_t width) {
  return guarded([&] {
    Tracker& own = given(tracker, "tracker")->tracker;
    few(count, "count"), few(width, "width");
    given(ids, count, "ids"), given(sizes, count, "sizes"), given(values, count * width, "values");
    for (size_t i = 0; i < count; ++i) above_zero(sizes[i], "sizes");
    all_finite(values, count * width, "values");
    const std::vector<int64_t> of(ids, ids + count);
    if (!own.smooth(of, values, width, sizes))
      refuse(
          "ids: expected those of the last update, each once a frame, and as many values always");
  });
}

palm_kits_status palm_kits_filter_create(double min_cutoff_hz, double beta, double speed_cutoff_hz,
                                         palm_kits_filter** filter) {
  return making(filter, [&] {
    return OneEuro(above_zero(min_cutoff_hz, "min_cutoff_hz"), between(beta, 0, 1e9, "beta"),
                   above_zero(speed_cutoff_hz, "speed_cutoff_hz"));
  });
}

void palm_kits_filter_free(palm_kits_filter* filter) { delete filter; }

palm_kits_status palm_kits_filter_run(palm_kits_filter* filter, float* values, size_t count,
                                      double time_s, double size) {
  return guarded([&] {
    OneEuro& own = given(filter, "filter")->filter;
    given(values, count, "values"), all_finite(values, count, "values");
    finite(time_s, "time_s"), above_zero(size, "size");
    if (!own.takes(count, time_s))
      refuse("values: expected as many as before, at a later time, got %zu at %g", count, time_s);
    own.filter(values, count, time_s, size, values);
  });
}

palm_kits_status palm_kits_mesh_filter_create(palm_kits_mesh_filter** filter) {
  return making(filter, [] { return MeshFilter(); });
}

void palm_kits_mesh_filter_free(palm_kits_mesh_filter* filter) { delete filter; }

palm_kits_status palm_kits_mesh_filter_run(palm_kits_mesh_filter* filter, float points[1434],
                                           double time_s) {
  return guarded([&] {
    given(filter, "filter");
    all_finite(given(points, "points"), 3 * kMeshPoints, "points");
    finite(time_s, "time_s"), check_rise(time_s > filter->last_s, time_s);
    filter->filter.filter(points, time_s, points);
    filter->last_s = time_s;
  });
}

palm_kits_status palm_kits_mask_filter_create(palm_kits_mask_filter** filter) {
  return making(filter, [] { return Steady(); });
}

void palm_kits_mask_filter_free(palm_kits_mask_filter* filter) { delete filter; }

palm_kits_status palm_kits_mask_filter_run(palm_kits_mask_filter* filter, float* mask,
                                           const palm_kits_image* small, const palm_kits_part* view,
                                           double time_s) {
  return guarded([&] {
    Steady& own = given(filter, "filter")->steady;
    const Pixels pixels(small, "small");
    const palm_kits_part& at = *given(view, "view");
    const Part part{finite(at.x, "view"), finite(at.y, "view"), above_zero(at.width, "view"),
                    above_zero(at.height, "view")};
    finite(time_s, "time_s"), check_rise(own.takes(time_s), time_s);
    Mask now(pixels.view().width, pixels.view().height);
    all_finite(given(mask, "mask"), now.size(), "mask");
    std::copy_n(mask, now.size(), now.data());
    own.update(now, pixels.view(), part, time_s);
    std::copy_n(now.data(), now.size(), mask);
  });
}
