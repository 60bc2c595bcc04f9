// The only file that knows Python.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <iterator>

#include "base/cpu.h"
#include "kernels/conv/conv.h"
#include "kernels/peak/peak.h"
#include "program.h"

namespace nb = nanobind;

namespace {

using palm::DType;
using palm::Fault;
using ReadArray = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;
using WriteArray = nb::ndarray<nb::c_contig, nb::device::cpu>;

// The classes of palmkit.engine.errors.
void raise(const palm::Error& error) {
  constexpr const char* kNames[] = {"ModelError", "ShapeError", "UnsupportedError", "BackendError"};
  const nb::object type =
      nb::module_::import_("palmkit.engine.errors").attr(kNames[static_cast<int>(error.fault())]);
  PyErr_SetString(type.ptr(), error.what());
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

palm::TensorSpec tensor_of(const nb::handle& spec) {
  constexpr const char* kPlaces[] = {"arena", "constant", "input", "output"};
  const auto place = cast<std::string>(item(spec, 0, 4), "place");
  const auto slot = cast<int64_t>(item(spec, 1, 4), "slot");
  const auto dtype = cast<std::string>(item(spec, 2, 4), "dtype");
  std::vector<size_t> shape;
  for (int64_t dim : cast<palm::Ints>(item(spec, 3, 4), "shape")) {
    if (dim < 0) palm::fail(Fault::kModel, "negative dim");
    shape.push_back(static_cast<size_t>(dim));
  }
  if (slot < 0) palm::fail(Fault::kModel, "negative slot");
  for (size_t i = 0; i < std::size(kPlaces); ++i) {
    if (place == kPlaces[i]) {
      return {static_cast<palm::Place>(i), static_cast<size_t>(slot),
              palm::Tensor(palm::dtype_by_name(dtype), std::move(shape))};
    }
  }
  palm::fail(Fault::kModel, "no place %.40s", place.c_str());
}

palm::StepSpec step_of(const nb::handle& spec) {
  std::map<std::string, palm::Attr> attrs;
  const nb::object dict = item(spec, 3, 4);
  if (!nb::isinstance<nb::dict>(dict)) palm::fail(Fault::kModel, "attrs is no dict");
  for (auto [name, value] : nb::borrow<nb::dict>(dict))
    attrs[cast<std::string>(name, "attribute name")] = attr_of(value);
  return {cast<std::string>(item(spec, 0, 4), "kernel"),
          cast<palm::Ints>(item(spec, 1, 4), "inputs"),
          cast<palm::Ints>(item(spec, 2, 4), "outputs"), palm::Attrs(std::move(attrs))};
}

uint32_t isa_of(const std::string& name) {
  uint32_t isa = palm::host_isa();
  if (name.empty()) return isa;
  if (!palm::isa_by_name(name.c_str(), &isa) || (palm::host_isa() & isa) != isa)
    palm::fail(Fault::kBackend, "this host has no instruction set %.40s", name.c_str());
  return isa;
}

template <class T, class Function>
std::vector<T> all(const nb::sequence& list, Function one) {
  std::vector<T> result;
  for (nb::handle each : list) result.push_back(one(each));
  return result;
}

// For each step that is a convolution (algorithm, seconds, terms) of all that suit it; for others
// none.
nb::list conv_algorithms(const nb::sequence& tensors_, const nb::sequence& steps,
                         const std::string& isa_name) {
  const auto tensors = all<palm::TensorSpec>(tensors_, tensor_of);
  const uint32_t isa = isa_of(isa_name);
  nb::list lists;
  for (nb::handle each : steps) {
    const palm::StepSpec spec = step_of(each);
    nb::list list;
    if (spec.kernel == "conv")
      for (const auto& c : palm::conv_algorithms(node_of(tensors, spec, isa)))
        list.append(nb::make_tuple(c.algorithm, c.seconds, c.terms));
    lists.append(list);
  }
  return lists;
}

// A program and the arrays that it reads in place.
struct Program {
  Program(const nb::sequence& tensors, const nb::sequence& steps, const nb::sequence& constants_,
          int64_t arena_bytes, const std::string& isa)
      : constants(constants_, "constant"),
        program(all<palm::TensorSpec>(tensors, tensor_of), all<palm::StepSpec>(steps, step_of),
                constants.views, arena_size(arena_bytes), isa_of(isa)) {}

  static size_t arena_size(int64_t bytes) {
    if (bytes < 0) palm::fail(Fault::kModel, "negative arena_bytes");
    return static_cast<size_t>(bytes);
  }

  Arrays<ReadArray> constants;
  palm::Program program;
};

struct Session {
  Session(const Program& program, int threads) : session(program.program, threads) {}

  void run(const nb::sequence& inputs, const nb::sequence& outputs, double* seconds = nullptr) {
    const Arrays<ReadArray> in(inputs, "input");
    const Arrays<WriteArray> out(outputs, "output");
    const nb::gil_scoped_release nogil;
    session.run(in.views, out.views, seconds);
  }

  std::vector<double> profile(const nb::sequence& inputs, const nb::sequence& outputs) {
    std::vector<double> seconds(session.steps());
    run(inputs, outputs, seconds.data());
    return seconds;
  }

  palm::Session session;
};

std::vector<std::string> isas() {
  std::vector<std::string> names;
#define PALM_ISA(isa, need) \
  if ((palm::host_isa() & palm::need) == palm::need) names.push_back(#isa);
#define PALM_BF16_ISA(isa, need) PALM_ISA(isa, need)
#include "base/bf16_isas.inc"
#include "base/isas.inc"
#undef PALM_BF16_ISA
#undef PALM_ISA
  return names;
}

}  // namespace

NB_MODULE(_native, m) {
  nb::register_exception_translator([](const std::exception_ptr& pointer, void*) {
    try {
      std::rethrow_exception(pointer);
    } catch (const palm::Error& error) { raise(error); }
  });
  m.def("isas", &isas);
  m.def(
      "peak_flops", [](double seconds) { return palm::peak_flops(palm::host_isa(), seconds); },
      nb::arg("seconds"), nb::call_guard<nb::gil_scoped_release>());
  m.def("kernels", &palm::kernel_names);
  m.def("conv_algorithms", &conv_algorithms, nb::arg("tensors"), nb::arg("steps"),
        nb::arg("isa") = "");
  nb::class_<Session>(m, "Session")
      .def(
          "run",
          [](Session& s, const nb::sequence& in, const nb::sequence& out) { s.run(in, out); },
          nb::arg("inputs"), nb::arg("outputs"))
      .def("profile", &Session::profile, nb::arg("inputs"), nb::arg("outputs"));
  nb::class_<Program>(m, "Program")
      .def(nb::init<const nb::sequence&, const nb::sequence&, const nb::sequence&, int64_t,
                    const std::string&>(),
           nb::arg("tensors"), nb::arg("steps"), nb::arg("constants"), nb::arg("arena_bytes"),
           nb::arg("isa") = "")
      .def(
          "session", [](const Program& p, int threads) { return new Session(p, threads); },
          nb::arg("threads"), nb::rv_policy::take_ownership, nb::keep_alive<0, 1>());
}
