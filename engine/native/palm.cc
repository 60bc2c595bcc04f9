// The calls of palm.h that may fail. Nothing that is thrown leaves this file.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/format.h"
#include "base/isas.h"
#include "palm_calls.h"
#include "palm_handles.h"

palm_value::palm_value(std::string name_, const std::string& dtype_, std::vector<int64_t> dims_,
                       std::vector<std::string> names_)
    : name(std::move(name_)),
      dtype(palm::dtype_by_name(dtype_)),
      dims(std::move(dims_)),
      names(std::move(names_)) {
  for (int64_t dim : dims)
    if (dim < 0) return;
  count = palm::checked_product(dims);
  bytes = palm::checked_product(count, palm::size_of(dtype));
}

namespace palm {
namespace {

// No destructor: a thread may end after the library.
thread_local char last_error[1024];

}  // namespace

void say(const char* text) {
  size_t size = std::min(std::strlen(text), sizeof last_error - 1);
  // Not in the middle of a letter.
  if (text[size])
    while (size && (text[size] & 0xc0) == 0x80) --size;
  std::memcpy(last_error, text, size);
  last_error[size] = 0;
}

void bad(palm_status status, const char* format, ...) {
  char text[512];
  va_list args;
  va_start(args, format);
  format_text(text, sizeof text, format, args);
  va_end(args);
  throw Bad(status, text);
}

}  // namespace palm

namespace {

using palm::Bad;
using palm::bad;
using palm::guarded;
using palm::making;
using palm::status_of;

void check_threads(int32_t threads) {
  if (threads < 1 || threads > 256)
    bad(PALM_ERROR_ARGUMENT, "threads: expected 1 to 256, got %d", threads);
}

[[noreturn]] void without_plans() {
  bad(PALM_ERROR_UNSUPPORTED,
      "the file has no plans for backend %s: write it again by palmkit.engine.save in Python, with "
      "shapes=[...] if its inputs have dims of any size",
      palm::kBackend);
}

palm::Plans plans_of(const palm::Sections& sections, const palm::PlansInFile& stored) {
  if (sections.is_encrypted) {
    bad(PALM_ERROR_UNSUPPORTED,
        "the file is encrypted: write it without a key, by palmkit.engine.save in Python, or "
        "decrypt it there");
  }
  if (!stored.version()) without_plans();
  if (!stored.are_known()) {
    bad(PALM_ERROR_UNSUPPORTED,
        "the file's plans are of version %u, and this library runs %u to %u: %s", stored.version(),
        palm::kOldestPlanVersion, palm::kPlanVersion,
        stored.version() > palm::kPlanVersion
            ? "upgrade it"
            : "write the file again by palmkit.engine.save in Python");
  }
  return stored.plans();
}

palm_value value_of(const palm::Value& value) {
  std::vector<int64_t> dims;
  std::vector<std::string> names;
  for (const auto& dim : value.dims) {
    const int64_t* const size = std::get_if<int64_t>(&dim);
    dims.push_back(size ? *size : -1);
    names.push_back(size ? std::string() : std::get<std::string>(dim));
  }
  return {value.name, value.dtype, std::move(dims), std::move(names)};
}

// How many of the inputs a plan's tensors know.
size_t inputs_of(const palm::Plan& plan) {
  size_t count = 0;
  for (const palm::TensorSpec& spec : plan.tensors)
    if (spec.place == palm::Place::kInput) count = std::max(count, spec.slot + 1);
  return count;
}

class Busy {
 public:
  explicit Busy(palm::Running& running) : running_(running) {
    if (running.is_busy.exchange(true))
      bad(PALM_ERROR_BACKEND, "the session is being run by another caller");
  }
  ~Busy() { running_.is_busy = false; }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;

 private:
  palm::Running& running_;
};

void check_count(const char* what, size_t expected, size_t got) {
  if (got != expected) bad(PALM_ERROR_SHAPE, "%ss: expected %zu, got %zu", what, expected, got);
}

bool overlap(const void* a, size_t a_size, const void* b, size_t b_size) {
  const auto x = reinterpret_cast<uintptr_t>(a), y = reinterpret_cast<uintptr_t>(b);
  return a_size && b_size && (x < y ? y - x < a_size : x - y < b_size);
}

palm::Array array_of(const char* what, const palm_value& value, const void* data, size_t size) {
  if (size != value.bytes) {
    bad(PALM_ERROR_SHAPE, "%s %.80s: expected %zu bytes, got %zu", what, value.name.c_str(),
        value.bytes, size);
  }
  if (size && !data)
    bad(PALM_ERROR_ARGUMENT, "%s %.80s: expected data, got NULL", what, value.name.c_str());
  if (reinterpret_cast<uintptr_t>(data) % palm::size_of(value.dtype)) {
    bad(PALM_ERROR_ARGUMENT, "%s %.80s: expected data at a multiple of %zu, got %p", what,
        value.name.c_str(), palm::size_of(value.dtype), data);
  }
  return {data, value.dtype, value.count};
}

void take_buffers(palm::Running& r, const palm_input* in, const palm_output* out) {
  const palm::Ready& ready = *r.ready;
  r.inputs.clear(), r.outputs.clear();
  for (size_t i = 0; i < ready.inputs.size(); ++i) {
    const palm::Array array = array_of("input", ready.inputs[i], in[i].data, in[i].size);
    if (i < ready.inputs_read) r.inputs.push_back(array);
  }
  for (size_t o = 0; o < ready.outputs.size(); ++o) {
    r.outputs.push_back(array_of("output", ready.outputs[o], out[o].data, out[o].size));
    bool is_apart = true;
    for (size_t i = 0; i < ready.inputs.size(); ++i)
      is_apart &= !overlap(out[o].data, out[o].size, in[i].data, in[i].size);
    for (size_t p = 0; p < o; ++p)
      is_apart &= !overlap(out[o].data, out[o].size, out[p].data, out[p].size);
    if (!is_apart) {
      bad(PALM_ERROR_ARGUMENT, "output %.80s: overlaps an input or another output",
          ready.outputs[o].name.c_str());
    }
  }
}

// What of options this library knows; `defaults` if there are none.
template <class Options>
Options known_of(const Options* options, const Options& defaults) {
  if (!options) return defaults;
  constexpr size_t kMost = 4096;
  if (options->size < sizeof defaults || options->size > kMost) {
    bad(PALM_ERROR_ARGUMENT, "options: expected a size of at least %zu, got %zu", sizeof defaults,
        options->size);
  }
  const char* const bytes = reinterpret_cast<const char*>(options);
  if (std::any_of(bytes + sizeof defaults, bytes + options->size, [](char byte) { return byte != 0; }))
    bad(PALM_ERROR_UNSUPPORTED, "options: a newer one than this library knows is set");
  return *options;
}

palm_options options_of(const palm_options* options) {
  const palm_options known = known_of(options, PALM_OPTIONS);
  check_threads(known.threads);
  if (known.precision != PALM_PRECISION_HIGH) {
    bad(PALM_ERROR_UNSUPPORTED,
        "precision: expected PALM_PRECISION_HIGH, which plans in files are of, got %d",
        known.precision);
  }
  return known;
}

}  // namespace

namespace palm {

OpenFile::OpenFile(const char* path)
    : pages(path), sections(pages.bytes()), stored(sections), plans(plans_of(sections, stored)) {
  describe();
}

OpenFile::OpenFile(Bytes bytes, bool borrow)
    : pages(bytes, borrow),
      sections(pages.bytes()),
      stored(sections),
      plans(plans_of(sections, stored)) {
  describe();
}

void OpenFile::describe() {
  for (const std::string& text : plans.texts())
    if (!is_text(text)) bad(PALM_ERROR_MODEL, "damaged: a name is not text");
  for (size_t i = 0; i < plans.count(); ++i)
    if (plans.backend(i) == kBackend) own.push_back(i);
  if (own.empty()) without_plans();
  for (const Value& value : plans.inputs()) inputs.push_back(value_of(value));
  for (const Value& value : plans.outputs()) outputs.push_back(value_of(value));
}

Ready::Ready(std::shared_ptr<const OpenFile> file_, Plan plan, size_t number, uint32_t isa,
             int threads)
    : file(std::move(file_)), inputs_read(inputs_of(plan)), nodes(std::move(plan.nodes)) {
  for (size_t i = 0; i < file->inputs.size(); ++i) {
    const Value& value = file->plans.inputs()[i];
    inputs.emplace_back(value.name, value.dtype, file->plans.shapes(number)[i]);
  }
  for (size_t i = 0; i < file->outputs.size(); ++i)
    outputs.emplace_back(file->outputs[i].name, plan.outputs[i].dtype, plan.outputs[i].dims);
  for (const StepSpec& step : plan.steps) kernels.push_back(step.kernel);
  program = std::make_unique<const Program>(std::move(plan.tensors), plan.steps, plan.constants,
                                            plan.arena_bytes, isa, threads);
  file->pages.release(program->constants_read());
}

Placement placement_of(const palm_session_options& options) {
  if (options.priority < PALM_PRIORITY_NORMAL || options.priority > PALM_PRIORITY_HIGH)
    bad(PALM_ERROR_ARGUMENT, "priority: expected 0 to 2, got %d", options.priority);
  if (options.core_count && !options.cores)
    bad(PALM_ERROR_ARGUMENT, "cores: expected %zu, got NULL", options.core_count);
  Placement placement{static_cast<Priority>(options.priority), {}};
  if (options.core_count)
    placement.cores.assign(options.cores, options.cores + options.core_count);
  return placement;
}

Watch::Clock::duration slice_of(double slice_ms) {
  constexpr double kMost = 1e9;
  if (!(slice_ms >= 0 && slice_ms <= kMost))
    bad(PALM_ERROR_ARGUMENT, "slice_ms: expected 0 to 1e9, got %g", slice_ms);
  return std::chrono::duration_cast<Watch::Clock::duration>(
      std::chrono::duration<double, std::milli>(slice_ms));
}

Running::Running(std::shared_ptr<const Ready> ready_, int threads, Placement placement,
                 Watch::Clock::duration slice_)
    : ready(std::move(ready_)),
      session(*ready->program, threads, false, std::move(placement)),
      slice(slice_) {
  inputs.reserve(ready->inputs.size());
  outputs.reserve(ready->outputs.size());
}

}  // namespace palm

extern "C" {

uint32_t palm_version(void) { return PALM_VERSION; }
const char* palm_error(void) { return palm::last_error; }

palm_status palm_open(const char* path, palm_model** model) {
  return making(model, [&] {
    if (!path) bad(PALM_ERROR_ARGUMENT, "path: expected a file, got NULL");
    try {
      return std::make_shared<const palm::OpenFile>(path);
    } catch (const palm::Error& error) {
      throw Bad(status_of(error.fault()), path + std::string(": ") + error.what());
    } catch (const Bad& error) {
      throw Bad(error.status(), path + std::string(": ") + error.what());
    }
  });
}

palm_status palm_open_bytes(const void* bytes, size_t size, uint32_t flags, palm_model** model) {
  return making(model, [&] {
    if (!bytes) bad(PALM_ERROR_ARGUMENT, "bytes: expected a file, got NULL");
    if (flags & ~uint32_t{PALM_BORROW})
      bad(PALM_ERROR_ARGUMENT, "flags: expected PALM_COPY or PALM_BORROW, got %u", flags);
    const palm::Bytes file{static_cast<const char*>(bytes), size};
    const bool borrow = flags & PALM_BORROW;
    if (borrow && reinterpret_cast<uintptr_t>(bytes) % palm::kAlignment)
      bad(PALM_ERROR_ARGUMENT, "bytes: expected at a multiple of 64, got %p", bytes);
    return std::make_shared<const palm::OpenFile>(file, borrow);
  });
}

void palm_model_free(palm_model* model) { delete model; }

palm_status palm_program_create(const palm_model* model, size_t plan, const palm_options* options,
                                palm_program** program) {
  return making(program, [&] {
    if (!model) bad(PALM_ERROR_ARGUMENT, "model: expected one, got NULL");
    const size_t count = palm_model_plan_count(model);
    if (plan >= count) bad(PALM_ERROR_ARGUMENT, "plan: expected below %zu, got %zu", count, plan);
    const palm_options known = options_of(options);
    const uint32_t isa = palm::isa_called(known.isa ? known.isa : "");
    const size_t number = model->file->own[plan];
    return std::make_shared<const palm::Ready>(model->file, model->file->plans.read(number), number, isa,
                                         known.threads);
  });
}

void palm_program_free(palm_program* program) { delete program; }

palm_status palm_session_create(const palm_program* program, int32_t threads,
                                palm_session** session) {
  palm_session_options options = PALM_SESSION_OPTIONS;
  options.threads = threads;
  return palm_session_create_with(program, &options, session);
}

palm_status palm_session_create_with(const palm_program* program,
                                     const palm_session_options* options, palm_session** session) {
  return making(session, [&] {
    if (!program) bad(PALM_ERROR_ARGUMENT, "program: expected one, got NULL");
    const palm_session_options known = known_of(options, PALM_SESSION_OPTIONS);
    check_threads(known.threads);
    return std::make_unique<palm::Running>(program->ready, known.threads,
                                           palm::placement_of(known),
                                           palm::slice_of(known.slice_ms));
  });
}

void palm_session_free(palm_session* session) { delete session; }

palm_status palm_session_watch(palm_session* session, palm_ask ask, void* user) {
  return guarded([&] {
    if (!session) bad(PALM_ERROR_ARGUMENT, "session: expected one, got NULL");
    palm::Running& r = *session->running;
    const Busy busy(r);
    r.ask = ask, r.user = user;
  });
}

static palm_status run(palm_session* session, const palm_input* inputs, size_t input_count,
                       const palm_output* outputs, size_t output_count, double* seconds) {
  return guarded([&] {
    if (!session) bad(PALM_ERROR_ARGUMENT, "session: expected one, got NULL");
    palm::Running& r = *session->running;
    const Busy busy(r);
    check_count("input", r.ready->inputs.size(), input_count);
    check_count("output", r.ready->outputs.size(), output_count);
    if ((input_count && !inputs) || (output_count && !outputs))
      bad(PALM_ERROR_ARGUMENT, "%s: expected buffers, got NULL", inputs ? "outputs" : "inputs");
    take_buffers(r, inputs, outputs);
    const auto go_on = [](void* data) {
      palm::Running& asking = *static_cast<palm::Running*>(data);
      return !(asking.is_ended = !asking.ask(asking.user));
    };
    r.is_ended = false;
    try {
      r.session.run(r.inputs, r.outputs, seconds, r.ask ? +go_on : nullptr, &r, r.slice);
    } catch (const palm::Error& error) {
      if (r.is_ended) bad(PALM_ERROR_INTERRUPTED, "%s", error.what());
      throw;
    }
  });
}

palm_status palm_run(palm_session* session, const palm_input* inputs, size_t input_count,
                     const palm_output* outputs, size_t output_count) {
  return run(session, inputs, input_count, outputs, output_count, nullptr);
}

palm_status palm_profile(palm_session* session, const palm_input* inputs, size_t input_count,
                         const palm_output* outputs, size_t output_count, double* seconds,
                         size_t second_count) {
  const palm_status status = guarded([&] {
    if (!session) bad(PALM_ERROR_ARGUMENT, "session: expected one, got NULL");
    check_count("second", session->running->session.steps(), second_count);
    if (second_count && !seconds)
      bad(PALM_ERROR_ARGUMENT, "seconds: expected room for %zu, got NULL", second_count);
  });
  // Without steps there is still nothing to be written.
  double none;
  return status ? status : run(session, inputs, input_count, outputs, output_count,
                               seconds ? seconds : &none);
}

}  // extern "C"
