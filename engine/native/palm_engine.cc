#include "palm_calls.h"
// Before palm_engine.h, which includes palm.h.
#include "palm_engine.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "base/cpu.h"
#include "base/crc32.h"
#include "base/isas.h"
#include "costs.h"
#include "entropy/stored.h"
#include "kernels/guided/guided.h"
#include "kernels/peak/peak.h"
#include "kernels/unary/unary.h"
#include "model_file.h"
#include "palm_handles.h"
#include "plans.h"
#include "program.h"

struct palm_engine_plans {
  palm::Plans plans;
  palm::Bytes data;
};
struct palm_engine_program {
  std::shared_ptr<const palm::Program> program;
};
struct palm_engine_session {
  palm_engine_session(std::shared_ptr<const palm::Program> program_, int threads, bool eager,
                      palm::Placement placement)
      : program(std::move(program_)),
        session(*program, threads, eager, std::move(placement)) {}
  std::shared_ptr<const palm::Program> program;
  palm::Session session;
};

namespace {

using palm::bad;
using palm::Bytes;
using palm::DType;
using palm::fail;
using palm::Fault;
using palm::guarded;
using palm::Ints;

// A value as JSON text.
class Json {
 public:
  Json& text(const std::string& value) {
    next();
    out_ += '"';
    for (const char c : value) {
      if (c == '"' || c == '\\') out_ += '\\';
      if (static_cast<unsigned char>(c) >= 0x20) {
        out_ += c;
        continue;
      }
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned>(c));
      out_ += code;
    }
    out_ += '"';
    return *this;
  }
  Json& whole(int64_t value) {
    next();
    out_ += std::to_string(value);
    return *this;
  }
  Json& number(double value) {
    next();
    char text[40];
    std::snprintf(text, sizeof text, "%.17g", value);
    out_ += std::isfinite(value) ? text : "Infinity";
    return *this;
  }
  Json& wholes(const Ints& values) {
    list();
    for (const int64_t each : values) whole(each);
    return end();
  }
  Json& list() { return open('['); }
  Json& object() { return open('{'); }
  Json& key(const char* name) {
    text(name);
    out_ += ':';
    is_first_ = true;
    return *this;
  }
  Json& end() {
    out_ += ends_.back();
    ends_.pop_back();
    is_first_ = false;
    return *this;
  }
  // For the caller, who frees it.
  char* given() const {
    char* const copy = static_cast<char*>(std::malloc(out_.size() + 1));
    if (!copy) throw std::bad_alloc();
    std::memcpy(copy, out_.c_str(), out_.size() + 1);
    return copy;
  }

 private:
  Json& open(char bracket) {
    next();
    out_ += bracket;
    ends_ += bracket == '[' ? ']' : '}';
    is_first_ = true;
    return *this;
  }
  void next() {
    if (!is_first_) out_ += ',';
    is_first_ = false;
  }

  std::string out_, ends_;
  bool is_first_ = true;
};

// Reads what palm_engine_steps has; nothing in it is trusted.
class Reader {
 public:
  explicit Reader(const palm_engine_steps& from) : from_(from) {
    const char* text = from.texts;
    for (const char* end = text + from.text_bytes; text < end;) {
      const size_t length = strnlen(text, static_cast<size_t>(end - text));
      texts_.emplace_back(text, length);
      text += length + 1;
    }
  }

  int64_t word() {
    if (at_ == from_.word_count) fail(Fault::kModel, "a plan that is cut short");
    return from_.words[at_++];
  }
  // Of things that have a word each at least.
  size_t count() {
    const int64_t count = word();
    if (count < 0 || static_cast<size_t>(count) > from_.word_count - at_)
      fail(Fault::kModel, "a plan that is cut short");
    return static_cast<size_t>(count);
  }
  Ints words() {
    Ints values(count());
    for (int64_t& each : values) each = word();
    return values;
  }
  const std::string& text() {
    const auto index = static_cast<uint64_t>(word());
    if (index >= texts_.size()) fail(Fault::kModel, "a plan without text %lld", static_cast<long long>(index));
    return texts_[index];
  }
  palm::Floats numbers(size_t count) {
    const auto first = static_cast<uint64_t>(word());
    if (first > from_.number_count || count > from_.number_count - first)
      fail(Fault::kModel, "a plan that is cut short");
    return {from_.numbers + first, from_.numbers + first + count};
  }

 private:
  const palm_engine_steps& from_;
  std::vector<std::string> texts_;
  size_t at_ = 0;
};

palm::TensorSpec tensor_of(Reader& from) {
  const int64_t place = from.word(), slot = from.word();
  const DType dtype = palm::dtype_by_name(from.text());
  const Ints dims = from.words();
  const bool is_part = from.word() != 0;
  const int64_t offset = is_part ? from.word() : 0;
  Ints strides = is_part ? from.words() : Ints();
  for (const int64_t dim : dims)
    if (dim < 0) fail(Fault::kModel, "negative dim");
  if (slot < 0 || offset < 0) fail(Fault::kModel, "negative slot or offset");
  if (place < 0 || place > static_cast<int64_t>(palm::Place::kOutput)) fail(Fault::kModel, "no such place");
  return {static_cast<palm::Place>(place), static_cast<size_t>(slot),
          palm::Tensor(dtype, {dims.begin(), dims.end()}, std::move(strides)),
          static_cast<size_t>(offset)};
}

palm::Attr attr_of(Reader& from) {
  enum Kind { kWhole, kNumber, kText, kWholes, kNumbers };
  switch (from.word()) {
    case kWhole: return from.word();
    case kNumber: return from.numbers(1)[0];
    case kText: return from.text();
    case kWholes: return from.words();
    case kNumbers: {
      const int64_t count = from.word();
      if (count < 0) fail(Fault::kModel, "a plan that is cut short");
      return from.numbers(static_cast<size_t>(count));
    }
  }
  fail(Fault::kModel, "an attribute of no kind");
}

palm::StepSpec step_of(Reader& from) {
  palm::StepSpec spec{from.text(), from.words(), from.words(), {}};
  for (size_t left = from.count(); left; --left) {
    const std::string& name = from.text();
    spec.attrs.set(name, attr_of(from));
  }
  return spec;
}

struct Steps {
  explicit Steps(const palm_engine_steps* given) {
    if (!given) bad(PALM_ERROR_ARGUMENT, "steps: expected some, got NULL");
    Reader from(*given);
    for (size_t left = from.count(); left; --left) tensors.push_back(tensor_of(from));
    for (size_t left = from.count(); left; --left) steps.push_back(step_of(from));
  }
  std::vector<palm::TensorSpec> tensors;
  std::vector<palm::StepSpec> steps;
};

std::vector<palm::Array> arrays_of(const palm_engine_array* arrays, size_t count) {
  std::vector<palm::Array> found;
  for (size_t i = 0; i < count; ++i) {
    if (!palm_dtype_name(static_cast<palm_dtype>(arrays[i].dtype)))
      fail(Fault::kUnsupported, "no dtype of number %lld", static_cast<long long>(arrays[i].dtype));
    found.push_back({reinterpret_cast<const void*>(static_cast<intptr_t>(arrays[i].address)),
                     static_cast<DType>(arrays[i].dtype), static_cast<size_t>(arrays[i].count)});
  }
  return found;
}

// The fields of NumPy's array and of its dtype behind the heads of these objects, as its C interface
// has them (PyArrayObject_fields, PyArray_Descr).
struct NumpyArray {
  const void* data;
  int32_t dims;
  const int64_t *shape, *strides;
  const void* base;
  const char* dtype;
  int32_t flags;
};
struct NumpyDtype {
  const void* type;
  char kind, letter, order, flags;
  int32_t number;
};
constexpr int32_t kContiguous = 0x1, kWritable = 0x400;

palm::Array array_of(const palm_engine_numpy& numpy, int64_t object, bool writable) {
  // Of an object's head the class is the last field.
  const char* const begin = reinterpret_cast<const char*>(static_cast<intptr_t>(object));
  int64_t type;
  std::memcpy(&type, begin + numpy.head - sizeof type, sizeof type);
  if (type != numpy.type) bad(PALM_ERROR_ARGUMENT, "no array");
  NumpyArray array;
  NumpyDtype dtype;
  std::memcpy(&array, begin + numpy.head, sizeof array);
  std::memcpy(&dtype, array.dtype + numpy.head, sizeof dtype);
  const bool is_known = dtype.number >= 0 && dtype.number < numpy.dtype_count &&
                        numpy.dtypes[dtype.number] >= 0 && dtype.order != '>';
  if (!is_known || !(array.flags & kContiguous) || (writable && !(array.flags & kWritable)))
    bad(PALM_ERROR_ARGUMENT, "an array of another kind");
  size_t count = 1;
  for (int32_t i = 0; i < array.dims; ++i) count *= static_cast<size_t>(array.shape[i]);
  return {array.data, static_cast<DType>(numpy.dtypes[dtype.number]), count};
}

std::vector<palm::Array> buffers(const palm_engine_call& call, size_t first, size_t count,
                                 bool writable) {
  if (!call.numpy) return arrays_of(call.arrays + first, count);
  std::vector<palm::Array> found(count);
  for (size_t i = 0; i < count; ++i)
    found[i] = array_of(*call.numpy, call.objects[first + i], writable);
  return found;
}

template <class T>
palm::Rows<T> rows_of(const palm_engine_rows& rows) {
  return {static_cast<T*>(rows.data), rows.height, rows.width, rows.stride};
}

// Where the program reads the data: (begin, end), what is less than `apart` bytes apart being one.
void write_read(Json& json, const palm::Program& program, Bytes data) {
  constexpr size_t apart = 64 << 10;
  size_t begin = 0, end = 0;
  const auto write = [&] {
    json.list().whole(static_cast<int64_t>(begin)).whole(static_cast<int64_t>(end)).end();
  };
  json.list();
  for (const Bytes& each : program.constants_read()) {
    const auto first = static_cast<size_t>(each.data - data.data);
    if (each.data < data.data || first >= data.size) continue;
    if (end && first > end + apart) write();
    if (!end || first > end + apart) begin = first;
    end = std::max(end, first + each.size);
  }
  if (end) write();
  json.end();
}

void write_values(Json& json, const std::vector<palm::Value>& values) {
  json.list();
  for (const palm::Value& value : values) {
    json.list().text(value.name).text(value.dtype).list();
    for (const auto& dim : value.dims) {
      if (const int64_t* const size = std::get_if<int64_t>(&dim)) json.whole(*size);
      else json.text(std::get<std::string>(dim));
    }
    json.end().end();
  }
  json.end();
}

char* description(const palm::Plans& plans) {
  Json json;
  json.object();
  write_values(json.key("inputs"), plans.inputs());
  write_values(json.key("outputs"), plans.outputs());
  json.key("metadata").list();
  for (const auto& [key, value] : plans.metadata()) json.list().text(key).text(value).end();
  json.end().key("backends").list();
  for (size_t i = 0; i < plans.count(); ++i) json.text(plans.backend(i));
  json.end().key("shapes").list();
  for (size_t i = 0; i < plans.count(); ++i) {
    json.list();
    for (const Ints& dims : plans.shapes(i)) json.wholes(dims);
    json.end();
  }
  return json.end().end().given();
}

palm::Plan read(const palm_engine_plans* plans, size_t index) {
  if (!plans || index >= plans->plans.count()) fail(Fault::kModel, "no plan %zu", index);
  return plans->plans.read(index);
}

uint32_t isa_of(const char* isa) { return palm::isa_called(isa ? isa : ""); }

}  // namespace

extern "C" {

uint32_t palm_engine_version(void) { return PALM_ENGINE_VERSION; }
void palm_engine_free(void* made) { std::free(made); }

palm_status palm_engine_kernels(char** json) {
  return guarded([&] {
    Json all;
    all.list();
    for (const palm::KernelEntry& each : palm::kernels()) {
      all.list().text(std::string(each.name));
      all.text(each.operands.inputs).text(each.operands.outputs).end();
    }
    *json = all.end().given();
  });
}

palm_status palm_engine_functions(char** json) {
  return guarded([&] {
    Json all;
    all.list();
    for (const char* name : palm::unary_names()) all.text(name);
    *json = all.end().given();
  });
}

int palm_engine_crc32(const void* data, size_t size, uint32_t* crc) {
  if (!palm::has_fast_crc32()) return 0;
  *crc = palm::crc32(data, size);
  return 1;
}

double palm_engine_peak_flops(double seconds) {
  return palm::peak_flops(palm::host_isa(), seconds);
}

double palm_engine_touching_seconds(size_t bytes) { return palm::touching_seconds(bytes); }
double palm_engine_sharing_seconds(void) { return palm::sharing_seconds(); }
size_t palm_engine_most_bytes_in_place(void) { return palm::most_bytes_in_place(); }

palm_status palm_engine_candidates(const palm_engine_steps* given, const char* isa,
                                   const palm_engine_array* constants, size_t constant_count,
                                   char** json) {
  return guarded([&] {
    Steps plan(given);
    const std::vector<palm::Array> arrays = arrays_of(constants, constant_count);
    for (palm::TensorSpec& spec : plan.tensors) {
      if (spec.place != palm::Place::kConstant || spec.slot >= arrays.size()) continue;
      const palm::Array& array = arrays[spec.slot];
      const bool fits = array.dtype == spec.tensor.dtype && array.count == spec.tensor.count &&
                        spec.tensor.is_dense();
      if (fits && array.count) spec.tensor.constant = array.data;
    }
    const uint32_t set = isa_of(isa);
    Json all;
    all.list();
    for (const palm::StepSpec& step : plan.steps) {
      all.list();
      for (const auto& each : palm::candidates(step.kernel, node_of(plan.tensors, step, set))) {
        all.list().text(each.algorithm).number(each.seconds).list();
        for (const double term : each.terms) all.number(term);
        all.end().end();
      }
      all.end();
    }
    *json = all.end().given();
  });
}

palm_status palm_engine_encode(int coding, const void* data, size_t data_size, size_t planes,
                               void** run, size_t* size) {
  return guarded([&] {
    if (coding < 0 || coding > static_cast<int>(palm::Coding::kPlanes))
      fail(Fault::kUnsupported, "no coding %d", coding);
    const auto coded = palm::encode_bytes(static_cast<palm::Coding>(coding),
                                          static_cast<const uint8_t*>(data), data_size, planes);
    *size = coded.size();
    *run = std::malloc(std::max<size_t>(coded.size(), 1));
    if (!*run) throw std::bad_alloc();
    std::copy(coded.begin(), coded.end(), static_cast<uint8_t*>(*run));
  });
}

palm_status palm_engine_decode(const void* recipe, size_t recipe_size, const void* data,
                               size_t data_size, const palm_engine_array* to) {
  return guarded([&] {
    Bytes left{static_cast<const char*>(recipe), recipe_size};
    const palm::Array array = arrays_of(to, 1)[0];
    const auto stored = palm::read_stored(left, {static_cast<const char*>(data), data_size},
                                          array.dtype, array.count);
    if (left.size) fail(Fault::kModel, "damaged: bytes behind a constant's recipe");
    stored->decode(const_cast<void*>(array.data));
  });
}

palm_status palm_engine_guided_upsample(const palm_engine_rows* offset,
                                        const palm_engine_rows* slopes, size_t planes,
                                        const palm_engine_rows* image,
                                        const palm_engine_rows* to) {
  return guarded([&] {
    palm::Guided guided{};
    if (planes != 1 && planes != 3)
      fail(Fault::kShape, "slopes: expected 1 or 3, got %zu", planes);
    guided.planes = planes;
    guided.offset = rows_of<const float>(*offset);
    for (size_t k = 0; k < planes; ++k) {
      guided.slopes[k] = rows_of<const float>(slopes[k]);
      if (slopes[k].height != slopes[0].height || slopes[k].width != slopes[0].width)
        fail(Fault::kShape, "slopes: expected arrays of one size");
    }
    guided.image = rows_of<const uint8_t>(*image);
    guided.y = rows_of<float>(*to);
    if (guided.y.height != guided.image.height || guided.y.width != guided.image.width)
      fail(Fault::kShape, "to: expected the size of the image");
    palm::guided_upsample(palm::host_isa(), guided);
  });
}

palm_status palm_engine_guided_fit(const palm_engine_rows* prior, const palm_engine_rows* colours,
                                   size_t planes, float reach, float weight,
                                   const palm_engine_rows* to) {
  return guarded([&] {
    palm::GuidedFit fit{};
    fit.planes = planes, fit.reach = reach, fit.weight = weight;
    fit.prior = rows_of<const float>(*prior);
    const palm::Rows<float> y = rows_of<float>(*to);
    const size_t height = fit.prior.height, width = fit.prior.width;
    bool fits = planes >= 1 && planes <= 3 && reach > 0 && reach < 100 &&
                y.height == (planes + 1) * height && y.width == width;
    for (size_t k = 0; fits && k <= planes; ++k) {
      fit.y[k] = {y.row(k * height), height, width, y.stride};
      if (k == planes) continue;
      fit.colours[k] = rows_of<const float>(colours[k]);
      fits = fit.colours[k].height == height && fit.colours[k].width == width;
    }
    if (!fits) {
      fail(Fault::kShape, "expected 1 to 3 planes, as large as the prior, a reach below 100, and "
                          "to with the rows of a picture more than there are planes");
    }
    palm::guided_fit(palm::host_isa(), fit);
  });
}

palm_status palm_engine_plans_create(const void* section, size_t section_size, const void* data,
                                     size_t data_size, palm_engine_plans** plans, char** json) {
  return guarded([&] {
    *plans = nullptr;
    const Bytes constants{static_cast<const char*>(data), data_size};
    auto made = std::make_unique<palm_engine_plans>(palm_engine_plans{
        palm::Plans({static_cast<const char*>(section), section_size}, constants), constants});
    for (const std::string& text : made->plans.texts())
      if (!palm::is_text(text)) fail(Fault::kModel, "damaged: a name is not text");
    *json = description(made->plans);
    *plans = made.release();
  });
}

void palm_engine_plans_free(palm_engine_plans* plans) { delete plans; }

palm_status palm_engine_plans_steps(const palm_engine_plans* plans, size_t index, char** json) {
  return guarded([&] {
    const palm::Plan plan = read(plans, index);
    Json all;
    all.list();
    for (size_t s = 0; s < plan.steps.size(); ++s)
      all.list().text(plan.nodes[s]).text(plan.steps[s].kernel).end();
    *json = all.end().given();
  });
}

palm_status palm_engine_plans_program(const palm_engine_plans* plans, size_t index, const char* isa,
                                      int32_t threads, palm_engine_program** program,
                                      char** json) {
  return guarded([&] {
    *program = nullptr;
    const uint32_t set = isa_of(isa);
    palm::Plan plan = read(plans, index);
    Json all;
    all.object().key("outputs").list();
    for (const auto& output : plan.outputs) all.list().text(output.dtype).wholes(output.dims).end();
    all.end().key("read");
    auto made = std::make_shared<const palm::Program>(
        std::move(plan.tensors), plan.steps, plan.constants, plan.arena_bytes, set, threads);
    write_read(all, *made, plans->data);
    *json = all.end().given();
    *program = new palm_engine_program{std::move(made)};
  });
}

palm_status palm_engine_program_create(const palm_engine_steps* given,
                                       const palm_engine_array* constants, size_t constant_count,
                                       int64_t arena_bytes, const char* isa, int32_t threads,
                                       palm_engine_program** program) {
  return guarded([&] {
    *program = nullptr;
    Steps plan(given);
    if (arena_bytes < 0) fail(Fault::kModel, "negative arena_bytes");
    *program = new palm_engine_program{std::make_shared<const palm::Program>(
        std::move(plan.tensors), plan.steps, arrays_of(constants, constant_count),
        static_cast<size_t>(arena_bytes), isa_of(isa), threads)};
  });
}

void palm_engine_program_free(palm_engine_program* program) { delete program; }

palm_status palm_engine_session_create(const palm_engine_program* program,
                                       const palm_session_options* options, int eager,
                                       palm_engine_session** session) {
  return guarded([&] {
    *session = nullptr;
    if (!program) bad(PALM_ERROR_ARGUMENT, "program: expected one, got NULL");
    *session = new palm_engine_session(program->program, options->threads, eager != 0,
                                       palm::placement_of(*options));
  });
}

void palm_engine_session_free(palm_engine_session* session) { delete session; }

size_t palm_engine_session_steps(const palm_engine_session* session) {
  return session ? session->session.steps() : 0;
}

palm_status palm_engine_run(const palm_engine_call* call) {
  bool is_ended = false;
  auto go_on = [&] { return !(is_ended = !call->ask(nullptr)); };
  return guarded([&] {
    if (!call->session) bad(PALM_ERROR_ARGUMENT, "session: expected one, got NULL");
    const auto ask = [](void* data) { return (*static_cast<decltype(go_on)*>(data))(); };
    const std::vector<palm::Array> inputs = buffers(*call, 0, call->input_count, false),
                                   outputs = buffers(*call, call->input_count, call->output_count, true);
    try {
      call->session->session.run(inputs, outputs, call->seconds, call->ask ? +ask : nullptr,
                                 &go_on, palm::slice_of(call->slice_ms));
    } catch (const palm::Error& error) {
      if (is_ended) bad(PALM_ERROR_INTERRUPTED, "%s", error.what());
      throw;
    }
  });
}

}  // extern "C"
