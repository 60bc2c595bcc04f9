// The only file that knows Python.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <iterator>
#include <memory>
#include <thread>

#include "base/cpu.h"
#include "base/crc32.h"
#include "base/isas.h"
#include "costs.h"
#include "entropy/stored.h"
#include "kernels/guided/guided.h"
#include "kernels/peak/peak.h"
#include "kernels/unary/unary.h"
#include "plans.h"
#include "program.h"

namespace nb = nanobind;

namespace {

using palm::DType;
using palm::Fault;
// Waits for Python's lock. Where Python has ended that never comes: until 3.14 it ends the thread
// instead, by unwinding it through frames that must not be unwound, so the thread sleeps.
void wait_for_lock(PyThreadState* state) {
  try {
    PyEval_RestoreThread(state);
  } catch (...) {
    for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
  }
}

// Lets other threads have Python's lock.
class Unlocked {
 public:
  Unlocked() : state_(PyEval_SaveThread()) {}
  ~Unlocked() { wait_for_lock(state_); }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

  // Lets Python see to its signals. False if one raised; then that is still raised.
  bool keeps_on() {
    wait_for_lock(state_);
    const bool none = PyErr_CheckSignals() == 0;
    state_ = PyEval_SaveThread();
    return none;
  }

 private:
  PyThreadState* state_;
};

using ReadArray = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;
using WriteArray = nb::ndarray<nb::c_contig, nb::device::cpu>;

// The classes of palmkit.engine.errors.
void raise(const palm::Error& error) {
  constexpr const char* kNames[] = {"ModelError", "ShapeError", "UnsupportedError", "BackendError"};
  const nb::object type =
      nb::module_::import_("palmkit.engine.errors").attr(kNames[static_cast<int>(error.fault())]);
  // A message may cut a name short in the middle of a letter.
  const nb::object text = nb::steal(PyUnicode_DecodeUTF8(
      error.what(), static_cast<Py_ssize_t>(std::strlen(error.what())), "replace"));
  PyErr_SetObject(type.ptr(), text.ptr());
}

DType dtype_of(const nb::dlpack::dtype& dtype) {
  using Code = nb::dlpack::dtype_code;
  const auto is = [&](Code code, int bits) {
    return dtype.code == static_cast<uint8_t>(code) && dtype.bits == bits && dtype.lanes == 1;
  };
  constexpr struct {
    Code code;
    int bits;
    DType dtype;
  } kTypes[] = {{Code::Float, 32, DType::kFloat32}, {Code::Float, 64, DType::kFloat64},
                {Code::Float, 16, DType::kFloat16}, {Code::Int, 8, DType::kInt8},
                {Code::UInt, 8, DType::kUint8},     {Code::Int, 16, DType::kInt16},
                {Code::UInt, 16, DType::kUint16},   {Code::Int, 32, DType::kInt32},
                {Code::UInt, 32, DType::kUint32},   {Code::Int, 64, DType::kInt64},
                {Code::UInt, 64, DType::kUint64},   {Code::Bool, 8, DType::kBool}};
  for (const auto& row : kTypes)
    if (is(row.code, row.bits)) return row.dtype;
  palm::fail(Fault::kUnsupported, "no dtype of code %d, %d bits", dtype.code, dtype.bits);
}

// Checked arrays, with what keeps them alive.
template <class NdArray>
struct Arrays {
  Arrays() = default;
  Arrays(const nb::sequence& list, const char* what) {
    for (nb::handle each : list) {
      NdArray array;
      if (!nb::try_cast(each, array, false)) {
        palm::fail(Fault::kShape, "%s %zu: expected a C-contiguous%s array", what, views.size(),
                   NdArray::ReadOnly ? "" : ", writable");
      }
      views.push_back({array.data(), dtype_of(array.dtype()), array.size()});
      owners.push_back(std::move(array));
    }
  }
  std::vector<NdArray> owners;
  std::vector<palm::Array> views;
};

nb::object item(const nb::handle& tuple, size_t i, size_t size) {
  if (!nb::isinstance<nb::tuple>(tuple) || nb::len(tuple) != size)
    palm::fail(Fault::kModel, "expected a tuple of %zu", size);
  return nb::borrow<nb::tuple>(tuple)[i];
}

template <class T>
T cast(const nb::handle& value, const char* what) {
  T result;
  if (!nb::try_cast(value, result)) palm::fail(Fault::kModel, "%s is of the wrong type", what);
  return result;
}

palm::Attr attr_of(const nb::handle& value) {
  int64_t whole;
  double number;
  std::string text;
  palm::Ints wholes;
  palm::Floats numbers;
  if (nb::try_cast(value, whole, false)) return whole;
  if (nb::try_cast(value, number, false)) return number;
  if (nb::try_cast(value, text, false)) return text;
  if (nb::try_cast(value, wholes, false)) return wholes;
  if (nb::try_cast(value, numbers, true)) return numbers;
  palm::fail(Fault::kModel, "an attribute is no number, string or list of numbers");
}

// (place, slot, dtype, shape), and (offset, strides) behind them of what is no dense array.
palm::TensorSpec tensor_of(const nb::handle& spec) {
  constexpr const char* kPlaces[] = {"arena", "constant", "input", "output"};
  const bool is_whole = nb::isinstance<nb::tuple>(spec) && nb::len(spec) == 4;
  const size_t size = is_whole ? 4 : 6;
  const auto place = cast<std::string>(item(spec, 0, size), "place");
  const auto slot = cast<int64_t>(item(spec, 1, size), "slot");
  const auto dtype = cast<std::string>(item(spec, 2, size), "dtype");
  const auto dims = cast<palm::Ints>(item(spec, 3, size), "shape");
  const auto offset = is_whole ? 0 : cast<int64_t>(item(spec, 4, size), "offset");
  palm::Ints strides = is_whole ? palm::Ints() : cast<palm::Ints>(item(spec, 5, size), "strides");
  for (int64_t dim : dims)
    if (dim < 0) palm::fail(Fault::kModel, "negative dim");
  if (slot < 0 || offset < 0) palm::fail(Fault::kModel, "negative slot or offset");
  for (size_t i = 0; i < std::size(kPlaces); ++i) {
    if (place == kPlaces[i]) {
      return {static_cast<palm::Place>(i), static_cast<size_t>(slot),
              palm::Tensor(palm::dtype_by_name(dtype), {dims.begin(), dims.end()},
                           std::move(strides)),
              static_cast<size_t>(offset)};
    }
  }
  palm::fail(Fault::kModel, "no place %.40s", place.c_str());
}

palm::StepSpec step_of(const nb::handle& spec) {
  palm::Attrs attrs;
  const nb::object dict = item(spec, 3, 4);
  if (!nb::isinstance<nb::dict>(dict)) palm::fail(Fault::kModel, "attrs is no dict");
  for (auto [name, value] : nb::borrow<nb::dict>(dict))
    attrs.set(cast<std::string>(name, "attribute name"), attr_of(value));
  return {cast<std::string>(item(spec, 0, 4), "kernel"),
          cast<palm::Ints>(item(spec, 1, 4), "inputs"),
          cast<palm::Ints>(item(spec, 2, 4), "outputs"), std::move(attrs)};
}

template <class T, class Function>
std::vector<T> all(const nb::sequence& list, Function one) {
  std::vector<T> result;
  for (nb::handle each : list) result.push_back(one(each));
  return result;
}

// (name, names of inputs, names of outputs), the names separated by spaces.
nb::list kernels() {
  nb::list list;
  for (const palm::KernelEntry& each : palm::kernels())
    list.append(nb::make_tuple(std::string(each.name), each.operands.inputs, each.operands.outputs));
  return list;
}

// The ops that the kernel "unary" runs, "relu" besides those of its table.
nb::list functions() {
  nb::list list;
  for (const char* name : palm::unary_names()) list.append(name);
  return list;
}

// For each step (algorithm, seconds, terms) of its candidates. constants_: the plan's, or none, as
// if no weight were zero.
nb::list candidates(const nb::sequence& tensors_, const nb::sequence& steps,
                         const std::string& isa_name, const nb::sequence& constants_) {
  auto tensors = all<palm::TensorSpec>(tensors_, tensor_of);
  const Arrays<ReadArray> constants(constants_, "constant");
  for (palm::TensorSpec& spec : tensors) {
    if (spec.place != palm::Place::kConstant || spec.slot >= constants.views.size()) continue;
    const palm::Array& array = constants.views[spec.slot];
    const bool fits = array.dtype == spec.tensor.dtype && array.count == spec.tensor.count &&
                      spec.tensor.is_dense();
    if (fits && array.count) spec.tensor.constant = array.data;
  }
  const uint32_t isa = palm::isa_called(isa_name);
  nb::list lists;
  for (nb::handle each : steps) {
    const palm::StepSpec spec = step_of(each);
    nb::list list;
    for (const auto& c : palm::candidates(spec.kernel, node_of(tensors, spec, isa)))
      list.append(nb::make_tuple(c.algorithm, c.seconds, c.terms));
    lists.append(list);
  }
  return lists;
}

// A program and the arrays that it reads in place.
struct Program {
  Program(const nb::sequence& tensors, const nb::sequence& steps, const nb::sequence& constants_,
          int64_t arena_bytes, const std::string& isa, int threads)
      : constants(constants_, "constant"),
        program(all<palm::TensorSpec>(tensors, tensor_of), all<palm::StepSpec>(steps, step_of),
                constants.views, size_of(arena_bytes, "arena_bytes"), palm::isa_called(isa), threads) {}

  // `plan` points into what the caller keeps alive.
  Program(palm::Plan plan, uint32_t isa, int threads)
      : program(std::move(plan.tensors), plan.steps, plan.constants, plan.arena_bytes, isa,
                threads) {}

  static size_t size_of(int64_t size, const char* what) {
    if (size < 0) palm::fail(Fault::kModel, "negative %s", what);
    return static_cast<size_t>(size);
  }

  Arrays<ReadArray> constants;
  palm::Program program;
};

// The plans of a file, and the file.
struct Plans {
  Plans(ReadArray section_, ReadArray data_)
      : section(std::move(section_)),
        data(std::move(data_)),
        plans(bytes_of(section), bytes_of(data)) {
    for (const std::string& text : plans.texts()) {
      const auto size = static_cast<Py_ssize_t>(text.size());
      if (nb::steal(PyUnicode_DecodeUTF8(text.data(), size, nullptr)).is_valid()) continue;
      PyErr_Clear();
      palm::fail(Fault::kModel, "damaged: a name is not text");
    }
  }

  static palm::Bytes bytes_of(const ReadArray& array) {
    return {static_cast<const char*>(array.data()), array.nbytes()};
  }

  palm::Plan read(size_t i) const {
    if (i >= plans.count()) palm::fail(Fault::kModel, "no plan %zu", i);
    return plans.read(i);
  }

  static nb::list values_of(const std::vector<palm::Value>& values) {
    nb::list list;
    for (const palm::Value& v : values) list.append(nb::make_tuple(v.name, v.dtype, v.dims));
    return list;
  }

  // Where the program reads the data: (begin, end), what is less than `apart` bytes apart being
  // one.
  nb::list read_by(const palm::Program& program) const {
    constexpr size_t apart = 64 << 10;
    const palm::Bytes all = bytes_of(data);
    nb::list list;
    size_t begin = 0, end = 0;
    for (const palm::Bytes& each : program.constants_read()) {
      const auto first = static_cast<size_t>(each.data - all.data);
      if (each.data < all.data || first >= all.size) continue;
      if (end && first > end + apart) list.append(nb::make_tuple(begin, end));
      if (!end || first > end + apart) begin = first;
      end = std::max(end, first + each.size);
    }
    if (end) list.append(nb::make_tuple(begin, end));
    return list;
  }

  // The program, for each output its dtype and dims, and what of the data it reads.
  nb::tuple program(size_t i, const std::string& isa, int threads) const {
    const uint32_t set = palm::isa_called(isa);
    palm::Plan plan = read(i);
    nb::list outputs;
    for (const auto& output : plan.outputs)
      outputs.append(nb::make_tuple(output.dtype, output.dims));
    auto made = std::make_unique<Program>(std::move(plan), set, threads);
    const nb::list read = read_by(made->program);
    return nb::make_tuple(made.release(), outputs, read);
  }

  // For each step the name of its node, and its kernel.
  nb::list steps(size_t i) const {
    const palm::Plan plan = read(i);
    nb::list list;
    for (size_t s = 0; s < plan.steps.size(); ++s)
      list.append(nb::make_tuple(plan.nodes[s], plan.steps[s].kernel));
    return list;
  }

  ReadArray section, data;
  palm::Plans plans;
};

nb::bytes encode(const std::string& coding, const ReadArray& data, size_t planes) {
  constexpr const char* kNames[] = {"plain", "huffman", "rans", "planes"};
  for (size_t i = 0; i < std::size(kNames); ++i) {
    if (coding != kNames[i]) continue;
    const auto run =
        palm::encode_bytes(static_cast<palm::Coding>(i), static_cast<const uint8_t*>(data.data()),
                           data.nbytes(), planes);
    return nb::bytes(run.data(), run.size());
  }
  palm::fail(Fault::kUnsupported, "no coding %.40s", coding.c_str());
}

// A constant of a file, by its recipe.
void decode(const nb::bytes& recipe, const ReadArray& data, const WriteArray& to) {
  palm::Bytes left{recipe.c_str(), recipe.size()};
  const auto stored =
      palm::read_stored(left, {static_cast<const char*>(data.data()), data.nbytes()},
                        dtype_of(to.dtype()), to.size());
  if (left.size) palm::fail(Fault::kModel, "damaged: bytes behind a constant's recipe");
  const Unlocked unlocked;
  stored->decode(to.data());
}

template <class T>
using Grid = nb::ndarray<T, nb::ndim<2>, nb::device::cpu>;
using Pixels = nb::ndarray<const uint8_t, nb::shape<-1, -1, 3>, nb::device::cpu>;

// The rows of an array whose pixels lie one behind the other. How far one is from the next says
// nothing where there is one alone.
template <class T, class NdArray>
palm::Rows<T> rows_of(const NdArray& array, int64_t pixel, const char* what) {
  const size_t height = array.shape(0), width = array.shape(1);
  const bool dense =
      (width == 1 || array.stride(1) == pixel) && (pixel == 1 || array.stride(2) == 1);
  if (!height || !width || !dense || (height > 1 && array.stride(0) < 0))
    palm::fail(Fault::kShape, "%s: expected rows of at least one pixel without gaps", what);
  return {array.data(), height, width, height > 1 ? static_cast<size_t>(array.stride(0)) : 0};
}

void guided_upsample(const Grid<const float>& offset, const std::vector<Grid<const float>>& slopes,
                     const Pixels& image, const Grid<float>& to) {
  palm::Guided guided{};
  guided.planes = slopes.size();
  if (guided.planes != 1 && guided.planes != 3)
    palm::fail(Fault::kShape, "slopes: expected 1 or 3, got %zu", guided.planes);
  guided.offset = rows_of<const float>(offset, 1, "offset");
  for (size_t k = 0; k < guided.planes; ++k) {
    guided.slopes[k] = rows_of<const float>(slopes[k], 1, "slopes");
    if (slopes[k].shape(0) != slopes[0].shape(0) || slopes[k].shape(1) != slopes[0].shape(1))
      palm::fail(Fault::kShape, "slopes: expected arrays of one size");
  }
  guided.image = rows_of<const uint8_t>(image, 3, "image");
  guided.y = rows_of<float>(to, 1, "to");
  if (guided.y.height != guided.image.height || guided.y.width != guided.image.width)
    palm::fail(Fault::kShape, "to: expected the size of the image");
  const Unlocked unlocked;
  palm::guided_upsample(palm::host_isa(), guided);
}

void guided_fit(const Grid<const float>& prior, const std::vector<Grid<const float>>& colours,
                float reach, float weight, const Grid<float>& to) {
  palm::GuidedFit fit{};
  fit.planes = colours.size(), fit.reach = reach, fit.weight = weight;
  fit.prior = rows_of<const float>(prior, 1, "prior");
  const palm::Rows<float> y = rows_of<float>(to, 1, "to");
  const size_t height = fit.prior.height, width = fit.prior.width;
  bool fits = fit.planes >= 1 && fit.planes <= 3 && reach > 0 && reach < 100 &&
              y.height == (fit.planes + 1) * height && y.width == width;
  for (size_t k = 0; fits && k <= fit.planes; ++k) {
    fit.y[k] = {y.row(k * height), height, width, y.stride};
    if (k == fit.planes) continue;
    fit.colours[k] = rows_of<const float>(colours[k], 1, "colours");
    fits = fit.colours[k].height == height && fit.colours[k].width == width;
  }
  if (!fits)
    palm::fail(Fault::kShape, "expected 1 to 3 planes, as large as the prior, a reach below 100, "
                              "and to with the rows of a picture more than there are planes");
  const Unlocked unlocked;
  palm::guided_fit(palm::host_isa(), fit);
}

struct Session {
  Session(const Program& program, int threads, bool eager)
      : session(program.program, threads, eager) {}

  void run(const nb::sequence& inputs, const nb::sequence& outputs, double* seconds = nullptr) {
    const Arrays<ReadArray> in(inputs, "input");
    const Arrays<WriteArray> out(outputs, "output");
    try {
      Unlocked unlocked;
      const auto ask = [](void* data) { return static_cast<Unlocked*>(data)->keeps_on(); };
      session.run(in.views, out.views, seconds, ask, &unlocked);
    } catch (const palm::Error&) {
      if (PyErr_Occurred()) throw nb::python_error();
      throw;
    }
  }

  std::vector<double> profile(const nb::sequence& inputs, const nb::sequence& outputs) {
    std::vector<double> seconds(session.steps());
    run(inputs, outputs, seconds.data());
    return seconds;
  }

  palm::Session session;
};

}  // namespace

NB_MODULE(_native, m) {
  // What a daemon thread holds when Python ends is no leak.
  nb::set_leak_warnings(false);
  nb::register_exception_translator([](const std::exception_ptr& pointer, void*) {
    try {
      std::rethrow_exception(pointer);
    } catch (const palm::Error& error) { raise(error); }
  });
  m.def("isas", &palm::host_isas);
  m.def(
      "peak_flops", [](double seconds) { return palm::peak_flops(palm::host_isa(), seconds); },
      nb::arg("seconds"), nb::call_guard<Unlocked>());
  m.def("kernels", &kernels);
  m.def(
      "crc32",
      [](const ReadArray& data) -> nb::object {
        if (!palm::has_fast_crc32()) return nb::none();
        return nb::int_(palm::crc32(data.data(), data.nbytes()));
      },
      nb::arg("data"));
  m.def("encode", &encode, nb::arg("coding"), nb::arg("data"), nb::arg("planes") = 1);
  m.def("decode", &decode, nb::arg("recipe"), nb::arg("data"), nb::arg("to"));
  m.def("guided_upsample", &guided_upsample, nb::arg("offset").noconvert(),
        nb::arg("slopes").noconvert(), nb::arg("image").noconvert(), nb::arg("to").noconvert());
  m.def("guided_fit", &guided_fit, nb::arg("prior").noconvert(), nb::arg("colours").noconvert(),
        nb::arg("reach"), nb::arg("weight"), nb::arg("to").noconvert());
  m.def("functions", &functions);
  m.def("candidates", &candidates, nb::arg("tensors"), nb::arg("steps"),
        nb::arg("isa") = "", nb::arg("constants") = nb::tuple());
  m.def("touching_seconds", &palm::touching_seconds, nb::arg("bytes"));
  m.def("sharing_seconds", &palm::sharing_seconds);
  m.def("most_bytes_in_place", &palm::most_bytes_in_place);
  nb::class_<Session>(m, "Session")
      .def(
          "run",
          [](Session& s, const nb::sequence& in, const nb::sequence& out) { s.run(in, out); },
          nb::arg("inputs"), nb::arg("outputs"))
      .def("profile", &Session::profile, nb::arg("inputs"), nb::arg("outputs"));
  nb::class_<Plans>(m, "Plans")
      .def(nb::init<ReadArray, ReadArray>(), nb::arg("section"), nb::arg("data"))
      .def_prop_ro("inputs", [](const Plans& p) { return Plans::values_of(p.plans.inputs()); })
      .def_prop_ro("outputs", [](const Plans& p) { return Plans::values_of(p.plans.outputs()); })
      .def_prop_ro("metadata", [](const Plans& p) { return p.plans.metadata(); })
      .def_prop_ro("shapes",
                   [](const Plans& p) {
                     std::vector<std::vector<palm::Ints>> shapes;
                     for (size_t i = 0; i < p.plans.count(); ++i)
                       shapes.push_back(p.plans.shapes(i));
                     return shapes;
                   })
      .def_prop_ro("backends",
                   [](const Plans& p) {
                     std::vector<std::string> names;
                     for (size_t i = 0; i < p.plans.count(); ++i)
                       names.push_back(p.plans.backend(i));
                     return names;
                   })
      .def("steps", &Plans::steps, nb::arg("index"))
      .def("program", &Plans::program, nb::arg("index"), nb::arg("isa") = "",
           nb::arg("threads") = 1);
  nb::class_<Program>(m, "Program")
      .def(nb::init<const nb::sequence&, const nb::sequence&, const nb::sequence&, int64_t,
                    const std::string&, int>(),
           nb::arg("tensors"), nb::arg("steps"), nb::arg("constants"), nb::arg("arena_bytes"),
           nb::arg("isa") = "", nb::arg("threads") = 1)
      .def(
          "session",
          [](const Program& p, int threads, bool eager) { return new Session(p, threads, eager); },
          nb::arg("threads"), nb::arg("eager") = false, nb::rv_policy::take_ownership,
          nb::keep_alive<0, 1>());
}
